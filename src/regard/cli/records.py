"""Where a verb's texts come from: its arguments, or stdin with one record a line."""

import sys
from collections.abc import Iterable, Iterator, Sequence

from regard.cli.terminal import tell
from regard.errors import UserError


def records(texts: Sequence[str]) -> Iterator[str]:
    """The arguments in order; stdin where they are none or `-`. A record never holds its line end."""
    for text in texts or ["-"]:
        if text == "-":
            yield from _stdin()
        else:
            yield text


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
