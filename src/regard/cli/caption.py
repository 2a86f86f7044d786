"""`regard caption`: what is on a picture, in words."""

import json
from contextlib import closing
from itertools import islice

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.pictures import listed
from regard.cli.showing import flat

CHUNK = 64
"Pictures that are read before the first caption comes out."

EXAMPLES = """\b
Examples:
  regard caption --model runs/shapes/model picture.png
  regard caption --model runs/shapes/model --beam 1 --json pictures/
  ls *.jpg | regard caption --model my-captioner
"""


@click.command(epilog=EXAMPLES)
@click.argument("images", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name of a captioner.")
@click.option("--beam", type=click.IntRange(1, 64), default=4, show_default=True, help="1 is greedy search.")
@click.option("--max-new", type=click.IntRange(min=1), default=64, show_default=True, help="Tokens of a caption.")
@precision_option
@click.option("--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a picture: image, caption, score.")
def command(images: tuple[str, ...], model: str | None, beam: int, max_new: int, precision: str, as_json: bool) -> None:
    """Say what is on each picture, in order: caption and name. Of a folder, all pictures in it.

    With no IMAGES, or for `-`, reads their names from stdin, one a line.
    """
    names = listed(images)
    first = list(islice(names, 1))  # now, so that a wrong name is told before the model is opened
    with opening(model, "Captioner"):
        from regard.tasks.captioner import Captioner

        caption = open_task(model, Captioner, precision)
    with closing(Count("pictures")) as count:
        done = 0
        while chunk := first + list(islice(names, CHUNK)):
            first = []
            found = caption.many(chunk, beam=beam, max_new=max_new)
            for name, said in zip(chunk, found, strict=True):
                count.make_room()
                shown = {"image": name, "caption": said.text, "score": said.score}
                click.echo(json.dumps(shown, ensure_ascii=False) if as_json else f"{flat(said.text)}\t{flat(name)}")
            done += len(chunk)
            count.heard(done)
