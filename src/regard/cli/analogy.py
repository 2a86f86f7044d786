"""`regard analogy`: sums of words, and the words nearest to one."""

import json
from typing import TYPE_CHECKING

import click

from regard.cli.opening import open_any, opening
from regard.cli.records import records
from regard.cli.showing import is_screen
from regard.errors import UserError
from regard.pretrained.bundled import usual
from regard.text.sums import sum_of

if TYPE_CHECKING:
    from regard.tasks.word_vectors import Analogy

EXAMPLES = """\b
Examples:
  regard analogy "man + aunt - uncle"
  regard analogy uncle aunt man
  regard analogy --model runs/word2vec/model president --top 5
  regard analogy --model runs/word2vec/model --json < sums.txt
"""


@click.command(epilog=EXAMPLES)
@click.argument("words", nargs=-1)
@click.option("--model", help="A directory with word vectors; by default those that come with regard.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Words to show.")
@click.option("--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a sum: plus, minus, answers.")
def command(words: tuple[str, ...], model: str | None, top: int, as_json: bool) -> None:
    """Show the words nearest to a sum of words, by cosine: "man + aunt - uncle".

    Three words without signs, uncle aunt man, ask what is to man as aunt is to uncle. One word asks for those near it.
    With no WORDS, or for `-`, reads stdin, one sum a line.
    """
    one = words and words != ("-",) and not any(" " in word for word in words)
    sums = [" ".join(words)] if one else list(records(words))
    for text in sums:
        sum_of(text)  # told before the model is opened
    with opening(model, "WordVectors"):
        from regard.tasks.word_vectors import WordVectors

        known = open_any(model or usual("WordVectors"), "fp32")
        if not isinstance(known, WordVectors):
            raise UserError(f"{model} has no vectors of words alone", "train some: `regard train word2vec --out DIR`")
    for number, text in enumerate(sums, start=1):
        show(known.analogy(text, top=top), as_json, number if len(sums) > 1 else None)


def show(found: "Analogy", as_json: bool, number: int | None) -> None:
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    if is_screen() and number is not None:
        minus = "".join(f" - {word}" for word in found.minus)
        click.echo(("" if number == 1 else "\n") + " + ".join(found.plus) + minus)
    for near in found.answers:
        if is_screen():
            click.echo(f"{near.score:6.3f}  {near.word}")
        else:
            click.echo(("" if number is None else f"{number}\t") + f"{near.score:.4f}\t{near.word}")
