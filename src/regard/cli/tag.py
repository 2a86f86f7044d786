"""`regard tag`: names in a text."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import column_option, file_option, is_typed, rows, total
from regard.cli.terminal import visible
from regard.errors import USAGE, UserError

if TYPE_CHECKING:
    from regard.tasks.tagger import Tagger, Tagging

COLOURS = ("green", "cyan", "yellow", "magenta", "blue", "red")

EXAMPLES = """\b
Examples:
  regard tag --model my-model "President Obama flew to San Francisco"
  regard tag --model my-model --file articles.txt --json
  regard tag --model my-model --conll < sentences.txt > tagged.conll
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name; else the bundled names.")
@file_option
@column_option
@click.option("--strict", is_flag=True, help="Only tags that agree with each other: no I- without its beginning.")
@precision_option
@click.option("--conll", is_flag=True, help="One word and its tag a line, a blank line after each text.")
@click.option("--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a text: text, entities, words.")
def command(
    texts: tuple[str, ...],
    model: str | None,
    path: Path | None,
    column: str | None,
    strict: bool,
    precision: str,
    conll: bool,
    as_json: bool,
) -> None:
    """Show each text with its names marked, in order: President [Obama person] flew.

    With no TEXTS, or for `-`, reads stdin, one text a line. Texts may be of any length.
    """
    if conll and as_json:
        raise UserError("both --conll and --json were given", "leave out one of them", exit_code=USAGE)
    lines = (text for (text,) in rows(texts, path, [] if column is None else [column]))
    with opening(model, "Tagger"):
        from regard.tasks.tagger import Tagger

        tag = open_task(model, Tagger, precision)
    write = write_conll if conll else write_json if as_json else show
    with closing(Count("texts", total(path))) as count:
        for found in run(tag, lines, count, typed=is_typed(texts, path), strict=strict):
            count.make_room()
            write(found)


def run(tag: "Tagger", lines: Iterator[str], count: Count, *, typed: bool, strict: bool) -> Iterator["Tagging"]:
    if typed:  # someone waits at the terminal: each line is answered at once
        return (tag(line, strict=strict) for line in lines)
    return tag.many(lines, strict=strict, heard=count.heard)


def write_conll(found: "Tagging") -> None:
    for word in found.words:
        click.echo(f"{word.text}\t{word.tag}")
    click.echo()


def write_json(found: "Tagging") -> None:
    click.echo(json.dumps(found.to_dict(), ensure_ascii=False))


def show(found: "Tagging") -> None:
    """The text on one line, its entities in brackets; on a terminal they have colours."""
    on_screen = sys.stdout is not None and sys.stdout.isatty()
    pieces, done = [], 0
    for entity in found.entities:
        before, name = found.text[done : entity.start], f"[{entity.text} {entity.label}]"
        pieces += [clean(before, on_screen), painted(clean(name, on_screen), entity.label, on_screen)]
        done = entity.end
    click.echo("".join(pieces) + clean(found.text[done:], on_screen))


def clean(text: str, on_screen: bool) -> str:
    text = text.replace("\r", " ").replace("\n", " ")
    return visible(text) if on_screen else text


def painted(text: str, label: str, on_screen: bool) -> str:
    if not on_screen or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=COLOURS[sum(map(ord, label)) % len(COLOURS)], bold=True)
