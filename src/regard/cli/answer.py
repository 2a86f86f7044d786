"""`regard answer`: questions in, pieces of a text out."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import is_typed, records
from regard.errors import USAGE, UserError
from regard.files import MIB, read_text

if TYPE_CHECKING:
    from regard.tasks.answerer import Answer, Answerer, Asked

MAX_CONTEXT = 64 * MIB
COLUMNS = ("question", "context")

EXAMPLES = """\b
Examples:
  regard answer --model my-model "Who flew?" --text "Obama flew home."
  regard answer --model my-model "Who?" "Where to?" --context article.txt
  regard answer --model my-model --context article.txt < questions.txt
  regard answer --model my-model --file questions.csv --no-answer --json
  regard answer --model my-model --file mine.csv --column ask --column body
"""


@click.command(epilog=EXAMPLES)
@click.argument("questions", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name of an answerer.")
@click.option("--context", type=click.Path(path_type=Path), help="The file with the text that answers.")
@click.option("--text", help="The text that answers.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="A table (.csv, .tsv, .jsonl, .parquet) with the columns question and context.",
)
@click.option("--column", "columns", multiple=True, metavar="NAME", help="The table's columns: questions, then texts.")
@click.option("--top", type=click.IntRange(min=1), default=1, show_default=True, help="Answers to each question.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=30, show_default=True, help="Longest answer.")
@click.option("--no-answer", is_flag=True, help="The text may have none: then an empty line.")
@click.option("--threshold", type=float, help="With --no-answer: higher gives more answers. [0]")
@precision_option
@click.option(
    "--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a question: question, text, start, ..."
)
def command(
    questions: tuple[str, ...],
    model: str | None,
    context: Path | None,
    text: str | None,
    path: Path | None,
    columns: tuple[str, ...],
    top: int,
    max_tokens: int,
    no_answer: bool,
    threshold: float | None,
    precision: str,
    as_json: bool,
) -> None:
    """Answer each question, in order, with the piece of the text that answers it best.

    With no QUESTIONS, or for `-`, reads stdin, one question a line. The text may be of any length.
    """
    if threshold is not None and not no_answer:
        raise UserError("--threshold is for --no-answer", "add --no-answer, or leave it out", exit_code=USAGE)
    if columns and (path is None or len(columns) != 2):
        what = "--column is for --file" if path is None else f"--column is given {len(columns)} times, for two columns"
        raise UserError(what, "give --file TABLE --column QUESTION --column TEXT", exit_code=USAGE)
    asked = pairs(questions, context, text, path, columns or COLUMNS)
    with opening(model, "Answerer"):
        from regard.tasks.answerer import Answerer

        answer = open_task(model, Answerer, precision)
    wish = {"top": top, "max_tokens": max_tokens, "no_answer": no_answer, "threshold": threshold or 0.0}
    typed = path is None and is_typed(questions, None)
    with closing(Count("questions")) as count:
        for number, (question, found) in enumerate(run(answer, asked, count, typed=typed, wish=wish), start=1):
            count.make_room()
            if as_json:
                click.echo(json.dumps({"question": question, **found.to_dict()}, ensure_ascii=False))
            else:
                show(found, number, top)


def pairs(
    questions: tuple[str, ...], context: Path | None, text: str | None, path: Path | None, columns: tuple[str, ...]
) -> Iterator["Asked"]:
    """Questions with their texts; what is wrong with them is told before the model is opened, where it can be."""
    given = [f"--{name}" for name, value in (("context", context), ("text", text), ("file", path)) if value is not None]
    if len(given) != 1:
        what = "there is no text that could answer" if not given else f"both {' and '.join(given)} were given"
        hint = "give one of --context FILE, --text TEXT, --file TABLE"
        raise UserError(what, hint, exit_code=USAGE)
    if path is not None:
        if questions:
            raise UserError("both questions and --file were given", "give one of them", exit_code=USAGE)
        return table(path, columns)
    if context is not None and not context.exists():
        raise UserError(f"there is no file {context}", "give the path of a text file, or --text and the text itself")
    about = text if context is None else read_text(context, MAX_CONTEXT)
    assert about is not None
    if not about.strip():
        raise UserError(f"{context or '--text'} has no text", "give the text that answers")
    return ((question, about) for question in records(questions))


def table(path: Path, columns: tuple[str, ...]) -> Iterator["Asked"]:
    from regard.data.corpus import TABLES, kind_of, read_rows

    if kind_of(path) not in TABLES:
        hint = f"expected one of {', '.join(TABLES)} with the columns {' and '.join(columns)}; --context takes a text"
        raise UserError(f"{path} is no table", hint, exit_code=USAGE)
    rows = read_rows(path, columns=columns)
    first = list(islice(rows, 1))  # now, so that a wrong path or name is told before the model is opened
    return ((question, context) for question, context in chain(first, rows))


def run(
    answer: "Answerer", asked: Iterable["Asked"], count: Count, *, typed: bool, wish: dict[str, Any]
) -> Iterator[tuple[str, "Answer"]]:
    if typed:  # someone waits at the terminal: each question is answered at once
        yield from ((question, answer(question, context, **wish)) for question, context in asked)
        return
    kept, read = tee(asked)
    found = answer.many(read, heard=count.heard, **wish)
    yield from ((question, each) for (question, _), each in zip(kept, found, strict=True))


def show(found: "Answer", number: int, top: int) -> None:
    """On one line; several between tabs, with the number of the question and the probability."""
    nothing = "(no answer)" if sys.stdout is not None and sys.stdout.isatty() else ""
    for each in (found, *found.alternatives):
        line = " ".join(each.text.split()) or nothing
        click.echo(line if top == 1 else f"{number}\t{each.score:.4f}\t{line}")
