"""`regard embed`: sentences in, vectors out."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.counting import Count, tell_of_cuts
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import column_option, file_option, is_typed, rows, total
from regard.cli.searching import TOP, Wanted, check, find
from regard.errors import USAGE, UserError

if TYPE_CHECKING:
    from regard.data.vectors import Vectors, Write

CHUNK = 512
"Lines read before the first vector comes out: enough to sort by length, few enough for a pipe."

EXAMPLES = """\b
Examples:
  regard embed "A cat sat on the mat." "A dog lay on the rug."
  regard embed --file sentences.txt --out vectors.npy
  regard embed --file reviews.csv --column text --out vectors.parquet
  regard embed --model path/to/model < sentences.txt > vectors.jsonl
  regard embed --model runs/elmo/model --words "the bank of the river"
  regard embed --search "a small cat" --file sentences.txt --top 3
  regard embed --search - --vectors vectors.npy --file sentences.txt \\
               < queries.txt
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name; by default an installed one.")
@file_option
@column_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write this file: .npy (the array), .jsonl or .parquet (text and vector).",
)
@click.option(
    "--search", multiple=True, metavar="QUERY", help="Show the texts nearest to this; - reads stdin, one query a line."
)
@click.option("--vectors", type=click.Path(path_type=Path), help="Search these, a .npy written before by --out.")
@click.option("--top", type=click.IntRange(min=1), help=f"Texts to show for each query. [{TOP}]")
@click.option("--words", is_flag=True, help="A vector for each word where it stands: one JSON object a text.")
@click.option("--json", "--jsonl", "as_json", is_flag=True, help="One JSON object a query: query, hits.")
@precision_option
def command(
    texts: tuple[str, ...],
    model: str | None,
    path: Path | None,
    column: str | None,
    out: Path | None,
    search: tuple[str, ...],
    vectors: Path | None,
    top: int | None,
    words: bool,
    as_json: bool,
    precision: str,
) -> None:
    """Turn each text into a vector: one JSON array a line, in order.

    With no TEXTS, or for `-`, reads stdin, one text a line. With --search it shows which of the texts are nearest to
    what is searched: cosine, line and text.
    """
    if words and (search or out is not None):
        raise UserError("--words goes without --search and --out", "leave those out", exit_code=USAGE)
    wanted = Wanted(search, vectors, top or TOP, as_json)
    check(wanted, texts, path, out, asked=top is not None)
    given = rows(texts, path, [] if column is None else [column]) if texts or path or not vectors else None
    lines = None if given is None else (text for (text,) in given)
    if out is not None:
        from regard.data.vectors import writer_of

        writer_of(out)  # a wrong ending is told before any work
    with opening(model, "Embedder"):
        from regard.tasks.embedder import Embedder

        embed = open_task(model, Embedder, precision)
    if words:
        assert lines is not None
        show_words(embed, lines, model)
        return
    if search:
        find(embed, lines, wanted, total(path))
        tell_of_cuts(embed)
        return
    assert lines is not None
    size, done = 1 if is_typed(texts, path) else CHUNK, 0
    with closing(Count("texts", total(path))) as count, into(out, embed.width) as write:
        while chunk := list(islice(lines, size)):
            found = embed(chunk, first=done + 1, heard=count.heard)
            count.make_room()
            write(chunk, found)
            done += len(chunk)
    tell_of_cuts(embed)


def show_words(embed: Any, lines: Iterator[str], model: str | None) -> None:
    from regard.data.vectors import plain

    if not hasattr(embed, "in_place"):
        hint = "give --model words, or train one with `regard train elmo` or `regard train word2vec`"
        raise UserError(f"{model or 'the model'} has no vectors of words", hint)
    while chunk := list(islice(lines, CHUNK)):
        for text, found in zip(chunk, embed.in_place(chunk), strict=True):
            rows = [{**each._asdict(), "vector": None if each.vector is None else plain(each.vector)} for each in found]
            click.echo(json.dumps({"text": text, "words": rows}, ensure_ascii=False))


@contextmanager
def into(out: Path | None, width: int) -> Iterator["Write"]:
    from regard.data.vectors import plain, vectors_into

    if out is not None:
        with vectors_into(out, width) as write:
            yield write
        return

    def show(_: Sequence[str], vectors: "Vectors") -> None:
        for vector in plain(vectors):
            click.echo(json.dumps(vector))

    yield show
