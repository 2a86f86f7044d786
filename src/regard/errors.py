"""What the user did wrong, said so that they can mend it.

`assert` is for our mistakes, `UserError` for theirs. The command line prints the message and the
hint, never a traceback, and leaves with `exit_code`.
"""

import difflib
import warnings
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

MAX_MESSAGE, QUOTED = 4_000, 200
"Characters of a message, and of one value that it quotes: both may come from a file, and a file may be long."

FAILURE, USAGE, BAD_INPUT, OUT_OF_MEMORY, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 130, 143
"Exit codes of the command line; 0 is success."


def cut(text: str, limit: int) -> str:
    """The beginning, and how much more there is."""
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit:,} more characters)"


class UserError(Exception):
    """`message` says what was wrong and where, `hint` what to type or change."""

    def __init__(self, message: str, hint: str = "", *, exit_code: int = BAD_INPUT) -> None:
        super().__init__(cut(message, MAX_MESSAGE))
        self.message = cut(message, MAX_MESSAGE)
        self.hint = cut(hint, MAX_MESSAGE)
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class Notice(UserWarning):
    """What the user should know though the work goes on; the command line tells it in one line."""


def notify(text: str, *, stacklevel: int = 1) -> None:
    """`stacklevel` as in `warnings.warn`: 1 is the caller's own line."""
    warnings.warn(text, Notice, stacklevel=stacklevel + 1)


def pick(name: str, known: Mapping[str, T], noun: str, *, listing: str = "") -> T:
    """`known[name]`, or an error that offers the nearest name or the command that lists them all."""
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name[:QUOTED], known, n=1)
    everything = f"run `{listing}` to see them all" if listing else f"known: {', '.join(sorted(known))}"
    hint = f"did you mean '{near[0]}'?" if near else everything
    raise UserError(f"unknown {noun} '{cut(name, QUOTED)}'", hint)
