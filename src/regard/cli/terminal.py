"""What is told on stderr. It may quote files of strangers, so nothing in it can steer the terminal; and it is never
worth more than the work it tells of: where nobody can hear it, it is given up."""

import contextlib
import os
import re
import shutil
import sys
import textwrap
import time
from typing import TextIO

# Also DEL, the second set of control characters, and the marks that turn the direction of writing around.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Control characters as their escapes; only a newline stays what it is."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class Screen:
    """What all that is told shares, since there is one terminal: when something was last said, and the live line."""

    said_at = 0.0
    width = 0
    "Of the line that stands there to be written over."


def is_live() -> bool:
    """Whether a line can be written over."""
    return sys.stderr is not None and sys.stderr.isatty()


def columns() -> int:
    """As wide as the terminal, whichever stream it is on; 80 where there is none, or one that does not know."""
    beside = (80, 24)
    with contextlib.suppress(AttributeError, OSError, ValueError):
        beside = os.get_terminal_size(sys.stderr.fileno())
    return shutil.get_terminal_size(beside).columns or 80


def tell(text: str) -> None:
    """A line that stays; on a terminal one that is too wide goes on below, in from its start."""
    wipe()
    text = visible(text)
    write((fold(text) if is_live() else text) + "\n")
    Screen.said_at = time.monotonic()


def overwrite(text: str) -> None:
    """The live line: what stood there goes."""
    text = visible(text)[: columns() - 1]
    write("\r" + text.ljust(Screen.width))
    Screen.width = len(text)


def wipe() -> None:
    """Make room where a live line stands, for what is to stay."""
    if Screen.width:
        write("\r" + " " * Screen.width + "\r")
        Screen.width = 0


def fold(text: str, width: int | None = None) -> str:
    """Lines of at most `width` letters, the terminal's by default; no word is broken."""
    width = max(20, width or columns())
    return "\n".join(_fold_line(line, width) for line in text.split("\n"))


def _fold_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    start = line[: len(line) - len(line.lstrip())]
    rows = textwrap.wrap(line, width, subsequent_indent=start or "  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(rows)


def write(text: str) -> None:
    """As it stands, so that a live line can be written over."""
    if sys.stderr is None:  # `2>&-` closes it
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # a pipe without a reader, a full disk, a stream closed by another
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """What is still buffered, and all that follows, goes nowhere: else Python, at its end, would try once more."""
    with contextlib.suppress(OSError, ValueError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, stream.fileno())
        os.close(sink)
