"""What is told on stderr. It may quote files of strangers, so nothing in it can steer the terminal; and it is never
worth more than the work it tells of: where nobody can hear it, it is given up."""

import contextlib
import os
import re
import sys
from typing import TextIO

# Also DEL, the second set of control characters, and the marks that turn the direction of writing around.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Control characters as their escapes; only a newline stays what it is."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def tell(text: str) -> None:
    write(visible(text) + "\n")


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
