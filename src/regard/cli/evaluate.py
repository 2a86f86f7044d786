"""`regard evaluate`: how good is a model on rows it has not seen?"""

import json
from pathlib import Path

import click

from regard.cli.counting import Count
from regard.cli.opening import open_any, opening, precision_option
from regard.cli.terminal import tell
from regard.errors import UserError
from regard.files import write_bytes

EXAMPLES = """\b
Examples:
  regard evaluate --model runs/multi30k/model --data test.de --data test.en
  regard evaluate --model runs/reviews/model --data test.csv \\
                  --column text --column label
  regard evaluate --model runs/names/model --data test.conll --json
  regard evaluate --model runs/cifar/model --data cifar.tar.xz/test
"""


@click.command(epilog=EXAMPLES)
@click.option("--model", help="A directory or hf:owner/name; else the bundled pt-en.")
@click.option(
    "--data", type=click.Path(path_type=Path), multiple=True, required=True, help="A table; a file a side; pictures."
)
@click.option("--column", "columns", multiple=True, help="Of a table with a header: the texts', then the label's.")
@click.option("--name", "names", multiple=True, metavar="FILE=MODEL", help="What the model calls a label of the file.")
@click.option("--beam", type=click.IntRange(1, 64), default=4, show_default=True, help="For translators.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many rows.")
@click.option("--bootstrap", type=click.IntRange(0, 100_000), default=1000, show_default=True, help="Interval.")
@click.option("--out", type=click.Path(path_type=Path), help="Write what the model said here, a line a row.")
@precision_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    model: str | None,
    data: tuple[Path, ...],
    columns: tuple[str, ...],
    names: tuple[str, ...],
    beam: int,
    limit: int | None,
    bootstrap: int,
    out: Path | None,
    precision: str,
    as_json: bool,
) -> None:
    """Score a model on the rows in --data, by what it is made for.

    Translators: BLEU and chrF as sacrebleu counts them. Classifiers: accuracy, F1, Matthews; for numbers Pearson and
    Spearman. Taggers: F1 of whole spans, as conlleval. Answerers: F1 and exact match, as SQuAD. Fillers: the share
    found at the first guess. Language models: perplexity and bits per character. For pictures (idx files, a tar, a
    folder): accuracy, or of captions the share that is the very same, apart for each folder.
    """
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise UserError(f"{out} cannot be written", "give a file name in a directory that exists")
    from regard.data.corpus import read_rows

    files = list(data)
    if not any(True for _ in read_rows(files, columns=columns or None)):  # a wrong file or name is told before all else
        raise UserError("--data has no rows", "give a file with rows to score on")
    with opening(model):
        from regard.lab.judging import Asked, judge
        from regard.tasks.load import VERBS

        task = open_any(model, precision)
    columns = columns or usual_columns(VERBS[type(task).__name__], files[0])
    asked = Asked(files, columns or None, limit, bootstrap, beam, dict(map(renamed, names)))
    count = Count("rows")
    try:
        found = judge(task, asked, count.heard)
    except UserError as error:
        if columns or ", line 1:" not in error.message:
            raise
        hint = f"{error.hint};\n  if line 1 names the columns, say which to use: --column TEXT --column LABEL"
        raise UserError(error.message, hint, exit_code=error.exit_code) from error
    count.close()
    tell(f"{found.n_rows:,} rows")
    if out:
        write_bytes(out, "".join(f"{line}\n" for line in found.said).encode())
    if as_json:
        verb = VERBS[type(task).__name__]
        with_beam = {"beam": beam} if verb in ("translate", "caption") else {}
        scores = [vars(score) for score in found.scores]
        click.echo(json.dumps({"task": verb, "rows": found.n_rows, **with_beam, "scores": scores}))
        return
    for score in found.scores:
        click.echo(f"{score}\n  {score.signature}")


def usual_columns(verb: str, path: Path) -> tuple[str, ...]:
    """As `regard train` finds them, where the table has a header with the usual names; else each line is a row."""
    from regard.cli.quick import USUAL_NAMES
    from regard.cli.records import usual_among
    from regard.data.corpus import names_of

    found = usual_among(names_of(path), USUAL_NAMES.get(verb, ()))
    if found:
        tell(f"columns: {', '.join(found)}")
    return found


def renamed(text: str) -> tuple[str, str]:
    theirs, equals, ours = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not of the form FILE=MODEL, as 1=positive is", param_hint="--name")
    return theirs, ours
