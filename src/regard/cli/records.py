"""Where a verb's texts come from: its arguments, stdin or a file with one record a line."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.cli.terminal import tell
from regard.errors import USAGE, UserError


def records(texts: Sequence[str]) -> Iterator[str]:
    """The arguments in order; stdin where they are none or `-`. A record never holds its line end."""
    for text in texts or ["-"]:
        if text == "-":
            yield from _stdin()
        else:
            yield text


def read(texts: Sequence[str], path: Path | None) -> Iterator[str]:
    if path is None:
        return records(texts)
    if texts:
        raise UserError("both texts and --file were given", "give one of them", exit_code=USAGE)
    if str(path) == "-":
        return records(["-"])
    if path.is_dir() or not path.exists():  # a pipe, as in --file <(zcat texts.gz), is no regular file but can be read
        raise UserError(f"there is no file {path}", "give the path of a text file, or - for stdin")
    return lines_of(path)


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


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """UTF-8 text, one record a line. Only a newline ends one: U+2028 and its like belong to the text."""
    for number, line in enumerate(lines, start=1):
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
    with open(path, "rb") as file:
        yield from decode_lines(file, str(path))
