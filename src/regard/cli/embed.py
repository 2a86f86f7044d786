"""`regard embed`: sentences in, vectors out."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import column_option, file_option, is_typed, rows, total
from regard.cli.searching import TOP, Wanted, check, find

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
    as_json: bool,
    precision: str,
) -> None:
    """Turn each text into a vector: one JSON array a line, in order.

    With no TEXTS, or for `-`, reads stdin, one text a line. With --search it shows which of the texts are nearest to
    what is searched: cosine, line and text.
    """
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
    if search:
        find(embed, lines, wanted, total(path))
        return
    assert lines is not None
    size, done = 1 if is_typed(texts, path) else CHUNK, 0
    with closing(Count("texts", total(path))) as count, into(out, embed.width) as write:
        while chunk := list(islice(lines, size)):
            found = embed(chunk, first=done + 1, heard=count.heard)
            count.make_room()
            write(chunk, found)
            done += len(chunk)


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
