"""`regard evaluate`: how good is a model on sentences it has not seen?"""

import json
from pathlib import Path

import click

from regard.cli.progress import Line
from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard evaluate --model runs/multi30k/model --data test.de --data test.en
  regard evaluate --model runs/multi30k/model --data test.tsv --beam 4 --json
"""


@click.command(epilog=EXAMPLES)
@click.option("--model", required=True, help="A directory or hf:owner/name.")
@click.option(
    "--data", type=click.Path(path_type=Path), multiple=True, required=True, help="A file of pairs; or once a side."
)
@click.option("--beam", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many sentences.")
@click.option("--bootstrap", type=click.IntRange(min=0), default=1000, show_default=True, help="Interval.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the translations here, one a line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    model: str, data: tuple[Path, ...], beam: int, limit: int | None, bootstrap: int, out: Path | None, as_json: bool
) -> None:
    """Translate the sources in --data and score them against the references: BLEU and chrF as sacrebleu counts them."""
    from itertools import islice

    from regard.data.corpus import read_rows
    from regard.evaluation.translation import bleu, chrf
    from regard.tasks.load import load_task
    from regard.tasks.translator import Translator

    translate, line = load_task(model, Translator), Line()
    pairs = list(islice(read_rows(list(data)), limit))
    if not pairs or len(pairs[0]) != 2:
        columns = len(pairs[0]) if pairs else 0
        raise UserError(f"--data has {len(pairs)} rows of {columns} columns", "expected sources and references")
    texts = []
    for number, translation in enumerate(translate.many([pair[0] for pair in pairs], beam=beam), start=1):
        texts.append(translation.text)
        line.show(f"{number:,}/{len(pairs):,} sentences")
    line.say(f"{len(pairs):,} sentences translated")
    if out:
        out.write_text("\n".join(texts) + "\n", encoding="utf-8")
    references = [pair[1] for pair in pairs]
    scores = [metric(texts, references, bootstrap=bootstrap) for metric in (bleu, chrf)]
    if as_json:
        click.echo(json.dumps({"sentences": len(pairs), "beam": beam, "scores": [vars(score) for score in scores]}))
        return
    for score in scores:
        click.echo(f"{score}  ({score.signature})")
