"""`regard fill`: words for the gaps of a text."""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import column_option, file_option, is_typed, rows, total
from regard.cli.showing import bar, flat, is_screen, percent, shortened
from regard.errors import USAGE, UserError

if TYPE_CHECKING:
    from regard.tasks.filler import Filling

CHUNK = 256
"Texts that are read before the first word comes out."
TOKEN_WIDTH = 12

EXAMPLES = """\b
Examples:
  regard fill --model my-model "My dog is [MASK]."
  regard fill --model my-model "The capital of ___ is ___." --top 3
  regard fill --model my-model --targets happy,sad "The news made me ___."
  regard fill --model my-model --file gaps.txt --json > filled.jsonl
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name of a masked language model.")
@file_option
@column_option
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Words to show for each gap.")
@click.option("--targets", metavar="A,B,...", help="Choose among these words only; each must be one token.")
@precision_option
@click.option("--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a text: text, filled, score, gaps.")
def command(
    texts: tuple[str, ...],
    model: str | None,
    path: Path | None,
    column: str | None,
    top: int,
    targets: str | None,
    precision: str,
    as_json: bool,
) -> None:
    """Fill the gaps of each text, written [MASK], ___ or as the model's own mask: the likeliest words.

    With no TEXTS, or for `-`, reads stdin, one text a line; blank ones are passed over. Several gaps are also filled
    together, the surest first.
    """
    given = (text for (text,) in rows(texts, path, [] if column is None else [column]) if text.strip())
    words = None if targets is None else [word.strip() for word in targets.split(",")]
    if words is not None and not all(words):
        raise UserError("--targets names an empty word", "write them as --targets happy,sad", exit_code=USAGE)
    with opening(model, "Filler"):
        from regard.tasks.filler import Filler

        fill = open_task(model, Filler, precision)
    size, number = 1 if is_typed(texts, path) else CHUNK, 0
    with closing(Count("texts", total(path))) as count:
        while chunk := list(islice(given, size)):
            found = fill.many(chunk, top=top, targets=words, first=number + 1, heard=count.heard)
            count.make_room()
            for text, filling in zip(chunk, found, strict=True):
                number += 1
                write(text, filling, number, as_json)


def write(text: str, found: "Filling", number: int, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(described(text, found), ensure_ascii=False))
    elif is_screen():
        for line in drawn(text, found):
            click.echo(shortened(line))
    else:
        for line in plain(found, number):
            click.echo(line)


def described(text: str, found: "Filling") -> dict[str, Any]:
    gaps = [
        [{"token": each.token, "id": each.id, "score": each.score, "text": each.text} for each in gap]
        for gap in found.gaps
    ]
    return {"text": text, "filled": found.text, "score": found.score, "gaps": gaps}


def plain(found: "Filling", number: int) -> Iterator[str]:
    """Number of the text, number of the gap, probability, token and filled text between tabs; `all` fills all gaps."""
    for gap, candidates in enumerate(found.gaps, start=1):
        for each in candidates:
            yield f"{number}\t{gap}\t{each.score:.4g}\t{flat(each.token)}\t{flat(each.text)}"
    if len(found.gaps) > 1:
        yield f"{number}\tall\t{found.score:.4g}\t\t{flat(found.text)}"


def drawn(text: str, found: "Filling") -> Iterator[str]:
    yield text
    for gap, candidates in enumerate(found.gaps, start=1):
        before = f"{gap}. " if len(found.gaps) > 1 else "  "
        for each in candidates:
            yield f"{before}{each.token:{TOKEN_WIDTH}} {percent(each.score)} {bar(each.score)}  {each.text}"
            before = " " * len(before)
    if len(found.gaps) > 1:
        yield f"together: {found.text}"
