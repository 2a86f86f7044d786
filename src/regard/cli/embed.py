"""`regard embed`: sentences in, vectors out."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.counting import Count
from regard.cli.opening import open_task, opening, precision_option
from regard.cli.records import is_typed, lines_in, read
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
"""


@click.command(epilog=EXAMPLES)
@click.argument("texts", nargs=-1)
@click.option("--model", help="A directory or hf:owner/name; by default an installed one.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="Read this file: one text a line, or a table (.csv, .tsv, .jsonl, .parquet).",
)
@click.option("--column", metavar="NAME", help="The column of the table that holds the texts.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write this file: .npy (the array), .jsonl or .parquet (text and vector).",
)
@precision_option
def command(
    texts: tuple[str, ...], model: str | None, path: Path | None, column: str | None, out: Path | None, precision: str
) -> None:
    """Turn each text into a vector: one JSON array a line, in order.

    With no TEXTS, or for `-`, reads stdin, one text a line.
    """
    lines = texts_of(texts, path, column)
    if out is not None:
        from regard.data.vectors import writer_of

        writer_of(out)  # a wrong ending is told before any work
    with opening(model, "Embedder"):
        from regard.tasks.embedder import Embedder

        embed = open_task(model, Embedder, precision)
    size, done = 1 if is_typed(texts, path) else CHUNK, 0
    with closing(Count("texts", total(path))) as count, into(out, embed.width) as write:
        while chunk := list(islice(lines, size)):
            vectors = embed(chunk, first=done + 1, heard=count.heard)
            count.make_room()
            write(chunk, vectors)
            done += len(chunk)


def texts_of(texts: tuple[str, ...], path: Path | None, column: str | None) -> Iterator[str]:
    from regard.data.corpus import TABLES, kind_of, read_rows

    if path is None or (kind_of(path) not in TABLES and path.suffix != ".gz"):
        if column is not None:
            raise UserError("--column is for tables", f"give --file with one of {', '.join(TABLES)}", exit_code=USAGE)
        return read(texts, path)
    if texts:
        raise UserError("both texts and --file were given", "give one of them", exit_code=USAGE)
    if column is None and kind_of(path) in TABLES:
        hint = "say which column holds the texts: --column NAME"
        raise UserError(f"{path} is a table", hint, exit_code=USAGE)
    rows = read_rows(path, columns=None if column is None else [column])
    first = list(islice(rows, 1))  # now, so that a wrong path or name is told before the model is opened
    return (text for (text,) in chain(first, rows))


def total(path: Path | None) -> int | None:
    """About as many texts as there will be: a quoted text of a .csv may have several lines."""
    from regard.data.corpus import TABLES, kind_of, n_rows

    if path is None or path.suffix == ".gz":
        return None
    if (kind := kind_of(path)) == ".parquet":
        return n_rows(path)
    if kind in TABLES and kind not in (".csv", ".tsv", ".jsonl"):  # a row has many lines, or shares one
        return None
    lines = lines_in(path)
    return lines and lines - (kind in (".csv", ".tsv"))  # the header


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
