"""`regard evaluate`: how good is a model on sentences it has not seen?"""

import json
from itertools import islice
from pathlib import Path

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.terminal import tell
from regard.cli.waiting import waiting
from regard.errors import UserError

EXAMPLES = """\b
Examples:
  regard evaluate --model runs/multi30k/model --data test.de --data test.en
  regard evaluate --model runs/multi30k/model --data test.tsv --beam 4 --json
  regard evaluate --model runs/multi30k/model --data test.csv \\
                  --column german --column english
"""


@click.command(epilog=EXAMPLES)
@click.option("--model", help="A directory or hf:owner/name; else the bundled pt-en.")
@click.option(
    "--data", type=click.Path(path_type=Path), multiple=True, required=True, help="A file of pairs; or once a side."
)
@click.option("--column", "columns", multiple=True, help="Of a table with a header: the source's, then the target's.")
@click.option("--beam", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many sentences.")
@click.option("--bootstrap", type=click.IntRange(0, 100_000), default=1000, show_default=True, help="Interval.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the translations here, one a line.")
@precision_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    model: str | None,
    data: tuple[Path, ...],
    columns: tuple[str, ...],
    beam: int,
    limit: int | None,
    bootstrap: int,
    out: Path | None,
    precision: str,
    as_json: bool,
) -> None:
    """Translate the sources in --data and score them against the references: BLEU and chrF as sacrebleu counts them."""
    sources, references = read_pairs(data, columns, limit)
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise UserError(f"{out} cannot be written", "give a file name in a directory that exists")
    texts = translated(model, sources, beam, precision)
    if out:
        out.write_text("\n".join(texts) + "\n", encoding="utf-8")
    with waiting("scoring"):
        from regard.evaluation.translation import bleu, chrf

        scores = [metric(texts, references, bootstrap=bootstrap) for metric in (bleu, chrf)]
    if as_json:
        click.echo(json.dumps({"sentences": len(texts), "beam": beam, "scores": [vars(score) for score in scores]}))
        return
    for score in scores:
        click.echo(f"{score}\n  {score.signature}")


def read_pairs(data: tuple[Path, ...], columns: tuple[str, ...], limit: int | None) -> tuple[list[str], list[str]]:
    """Sources and references; pairs without a text on one side count, and are told of."""
    from regard.data.corpus import read_rows

    rows = list(islice(read_rows(list(data), columns=columns or None), limit))
    if not rows or len(rows[0]) != 2:
        found = f"{len(rows):,} rows of {len(rows[0])} columns" if rows else "no rows"
        raise UserError(f"--data has {found}", "expected sources and references: two text files, or one table of both")
    if empty := sum(not (row[0].strip() and row[1].strip()) for row in rows):
        tell(f"note: {empty:,} of {len(rows):,} pairs lack a text on one side; they count as they are")
    return [row[0] for row in rows], [row[1] for row in rows]


def translated(model: str | None, sources: list[str], beam: int, precision: str) -> list[str]:
    with opening(model):
        from regard.tasks.translator import Translator

        translate = open_task(model, Translator, precision)
    count = Count("sentences", len(sources))
    texts = [each.text for each in translate.many(sources, beam=beam, heard=count.heard)]
    tell(f"{len(sources):,} sentences translated")
    return texts
