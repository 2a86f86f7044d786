"""Where a verb's texts come from: its arguments, stdin, a file with one record a line, or columns of a table."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from os.path import isfile
from pathlib import Path
from typing import Any, BinaryIO

import click

from regard.cli.terminal import tell
from regard.errors import QUOTED, USAGE, UserError, cut

USUAL_TEXTS = (("text",), ("sentence",), ("content",), ("review",))
USUAL_PAIRS = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("text1", "text2"))
"Names that columns of texts often have, looked for in this order."
GIVE = "give the path of a text file, or - for stdin"

file_option = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="Read this file: one text a line, or a table (.csv, .tsv, .jsonl, .parquet).",
)


class Folder(click.Path):
    """To be written. `--out "$RUNS"` with RUNS unset is no wish to write here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(value, param, ctx) if value else self.fail("the name is empty", param, ctx)


FOLDER = Folder(path_type=Path)
column_option = click.option("--column", metavar="NAME", help="The column of the table that holds the texts.")


def records(texts: Sequence[str]) -> Iterator[str]:
    """The arguments in order; stdin where they are none or `-`. A record never holds its line end."""
    for text in texts or ["-"]:
        if text == "-":
            yield from _stdin()
        else:
            yield text


def read(texts: Sequence[str], path: Path | None) -> Iterator[str]:
    if path is None:
        if len(texts) == 1 and isfile(texts[0]):
            tell(f"note: there is a file {texts[0]}, but its name is taken as the text; --file {texts[0]} reads it")
        return records(texts)
    if texts:
        raise UserError("both texts and --file were given", "give one of them", exit_code=USAGE)
    if str(path) == "-":
        return records(["-"])
    with readable(path):
        if path.is_dir():
            raise UserError(f"{path} is a folder", GIVE)
        if not path.exists():  # a pipe, as in --file <(zcat texts.gz), is no regular file but can be read
            raise UserError(f"there is no file {path}", GIVE)
    return lines_of(path)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # no permission, a name too long
        raise UserError(f"cannot read {cut(str(path), QUOTED)}: {error.strerror}", GIVE) from error


def is_typed(texts: Sequence[str], path: Path | None) -> bool:
    """Whether someone types them at a terminal and waits for each answer."""
    from_stdin = str(path) == "-" or (path is None and (not texts or "-" in texts))
    return from_stdin and sys.stdin is not None and sys.stdin.isatty()


def _stdin() -> Iterator[str]:
    if sys.stdin is None:  # `<&-` closes it
        raise UserError("there is no text: stdin is closed", "give the text as an argument or through a pipe")
    if sys.stdin.isatty():
        tell("reading from the terminal, one record a line; end with Ctrl-D")
    yield from decode_lines(sys.stdin.buffer, "stdin")


def decode_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """UTF-8 text, one record a line. Only a newline ends one: U+2028 and its like belong to the text."""
    from regard.data.lines import MAX_LINE

    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), start=1):
        if len(line) > MAX_LINE:
            raise UserError(f"{name}, line {number} has more than {MAX_LINE:,} bytes", "is it a file of text?")
        try:
            # A byte order mark is a habit of some editors, not a letter of the text.
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            hint = "save the text as UTF-8, for example with `iconv -t utf-8`"
            raise UserError(f"{name}, line {number}: not UTF-8 at byte {error.start + 1}", hint) from error
        yield text.removesuffix("\n").removesuffix("\r")


def lines_in(path: Path) -> int | None:
    """To tell what is left; of a pipe nobody knows."""
    if not path.is_file():
        return None
    last, count = b"\n", 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            last, count = block[-1:], count + block.count(b"\n")
    return count + (last != b"\n")


def lines_of(path: Path) -> Iterator[str]:
    with readable(path), open(path, "rb") as file:
        yield from decode_lines(file, str(path))


Row = tuple[str, ...]


def rows(texts: Sequence[str], path: Path | None, columns: Sequence[str] = (), *, pairs: bool = False) -> Iterator[Row]:
    """Texts, or pairs of them: two arguments, two columns of a table, or a line with a tab between them."""
    from regard.data.corpus import TABLES, kind_of, names_of, read_rows

    pairs = pairs or len(columns) == 2
    is_table = path is not None and kind_of(path) in TABLES
    if columns and not is_table:
        raise UserError("--column is for tables", f"give --file with one of {', '.join(TABLES)}", exit_code=USAGE)
    if len(columns) > 2 or (pairs and len(columns) == 1):
        hint = "give --column once for texts, twice for pairs of them"
        raise UserError(f"--column was given {len(columns)} times", hint, exit_code=USAGE)
    if path is None or (not is_table and path.suffix != ".gz"):
        return _of_lines(texts, path, pairs)
    if texts:
        raise UserError("both texts and --file were given", "give one of them", exit_code=USAGE)
    if is_table and not columns and (columns := usual_among(names_of(path), USUAL_PAIRS if pairs else USUAL_TEXTS)):
        tell(f"reading {' and '.join(columns)} of {path}; --column takes another")
    if is_table and not columns and not pairs:
        names = ", ".join(names_of(path)[:20])
        hint = "say which column holds the texts: --column NAME, or twice for pairs"
        raise UserError(f"{path} is a table with the columns {names}", hint, exit_code=USAGE)
    found = read_rows(path, columns=list(columns) or None)
    first = list(islice(found, 1))  # now, so that a wrong path or name is told before the model is opened
    return _even(chain(first, found), str(path), pairs)


def usual_among(names: Sequence[str], known: Iterable[Row]) -> Row:
    """The columns with usual names; none where some are missing."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    for usual in known:
        if all(name in lower for name in usual):
            return tuple(lower[name] for name in usual)
    return ()


def _of_lines(texts: Sequence[str], path: Path | None, pairs: bool) -> Iterator[Row]:
    if pairs and path is None and texts and "-" not in texts:
        if len(texts) % 2:
            raise UserError(f"{len(texts)} texts are no pairs", "give the two texts of each pair", exit_code=USAGE)
        return zip(texts[::2], texts[1::2], strict=True)
    return _even(((line,) for line in read(texts, path)), "the input", pairs)


def _even(found: Iterable[Row], name: str, pairs: bool) -> Iterator[Row]:
    for number, row in enumerate(found, start=1):
        row = tuple(row[0].split("\t")) if pairs and len(row) == 1 else row
        if len(row) != 1 + pairs:
            hint = "expected two texts with a tab between them" if pairs else "expected one text"
            raise UserError(f"{name}, line {number} has {len(row)} fields", hint)
        yield row


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
