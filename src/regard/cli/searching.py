"""`regard embed --search`: which texts are nearest to a query."""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from regard.cli.counting import Count
from regard.cli.records import records
from regard.cli.showing import flat, is_screen, shortened
from regard.cli.terminal import tell
from regard.errors import USAGE, UserError

if TYPE_CHECKING:
    from regard.data.nearest import Hit
    from regard.data.vectors import Vectors
    from regard.tasks.embedder import Embedder

TOP = 5
NPY = "give the .npy that `regard embed --out vectors.npy` wrote"
CHUNK = 512
"Texts that become vectors at once."


class Wanted(NamedTuple):
    """What is searched, where, and how it is shown."""

    queries: tuple[str, ...]
    vectors: Path | None
    top: int
    as_json: bool

    @property
    def from_stdin(self) -> bool:
        return "-" in self.queries


def check(wanted: Wanted, texts: tuple[str, ...], path: Path | None, out: Path | None, *, asked: bool) -> None:
    """What can be told before the model is opened; `asked` says that --top was given."""
    if not wanted.queries and (wanted.vectors or asked):
        hint = "say what to search: --search QUERY"
        raise UserError("--vectors and --top are for --search", hint, exit_code=USAGE)
    if wanted.queries and out is not None:
        raise UserError("both --search and --out were given", "write the vectors first", exit_code=USAGE)
    named = str(path) != "-" and (bool(path) or bool(texts) or wanted.vectors is not None)
    if wanted.from_stdin and (not named or "-" in texts):
        hint = "give the texts that are searched with --file"
        raise UserError("queries and texts cannot both come from stdin", hint, exit_code=USAGE)
    if wanted.vectors is not None and not wanted.vectors.is_file():
        raise UserError(f"there is no file {wanted.vectors}", NPY)
    if wanted.vectors is not None and wanted.vectors.suffix.lower() != ".npy":
        raise UserError(f"{wanted.vectors} cannot be searched: --vectors reads .npy only", NPY, exit_code=USAGE)


def find(embed: "Embedder", texts: Iterator[str] | None, wanted: Wanted, n_texts: int | None) -> None:
    from regard.data.nearest import Nearest

    queries = list(records(wanted.queries))
    if texts is None:
        tell("note: the vectors have no texts, so only lines are shown; --file names what they were made of")
    nearest = Nearest(embed(queries), wanted.top)
    with closing(Count("texts", n_texts)) as count:
        for some, vectors in portions(embed, texts, wanted.vectors, count):
            nearest.add(some, vectors, unknown=texts is None)
        count.make_room()
    for number, (query, hits) in enumerate(zip(queries, nearest.hits(), strict=True), start=1):
        show(query, hits, wanted, number if len(queries) > 1 or wanted.from_stdin else None)


def portions(
    embed: "Embedder", texts: Iterator[str] | None, saved: Path | None, count: Count
) -> Iterator[tuple[list[str], "Vectors"]]:
    if saved is not None:
        yield from read_saved(saved, texts, embed.width)
        return
    assert texts is not None
    done = 0
    while chunk := list(islice(texts, CHUNK)):
        yield chunk, embed(chunk, first=done + 1, heard=count.heard)
        done += len(chunk)


def read_saved(path: Path, texts: Iterator[str] | None, width: int) -> Iterator[tuple[list[str], "Vectors"]]:
    """The vectors of a file beside the texts that they were made of, where those are given."""
    from regard.data.nearest import read_vectors

    n_vectors = n_texts = 0
    for block in read_vectors(path, width):
        some = [""] * len(block) if texts is None else list(islice(texts, len(block)))
        n_vectors, n_texts = n_vectors + len(block), n_texts + len(some)
        if len(some) == len(block):
            yield some, block
    n_texts += sum(1 for _ in texts or ())
    if n_vectors != n_texts:
        hint = "give the file that the vectors were made of"
        raise UserError(f"{path} holds {n_vectors:,} vectors, but there are {n_texts:,} texts", hint)


def show(query: str, hits: list["Hit"], wanted: Wanted, number: int | None) -> None:
    if wanted.as_json:
        found = [{"score": round(hit.score, 6), "line": hit.number, "text": hit.text} for hit in hits]
        click.echo(json.dumps({"query": query, "hits": found}, ensure_ascii=False))
    elif is_screen():
        if number is not None:
            click.echo(("" if number == 1 else "\n") + shortened(query))
        for hit in hits:
            click.echo(shortened(f"{hit.score:6.3f}  {hit.number:>6}  {hit.text}"))
    else:
        for hit in hits:
            before = "" if number is None else f"{number}\t"
            click.echo(f"{before}{hit.score:.4f}\t{hit.number}\t{flat(hit.text)}")
