"""How results look: neat where a person reads them on a terminal, between tabs where a program does."""

import re
import sys

from regard.cli.terminal import columns, visible

FULL, PARTS = "█", " ▏▎▍▌▋▊▉"


def is_screen() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def flat(text: str) -> str:
    """On one line and without tabs, which part the fields."""
    return re.sub(r"[\t\r\n]+", " ", text)


def shortened(text: str) -> str:
    """At most as wide as the terminal, and nothing in it that could steer it."""
    text, room = visible(flat(text)), max(20, columns())
    return text if len(text) <= room else text[: room - 1] + "…"


def bar(share: float, width: int = 10) -> str:
    """A share from 0 to 1, drawn to an eighth of a letter."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    drawn = FULL * (eighths // 8) + PARTS[eighths % 8].strip()
    return drawn.ljust(width)


def percent(share: float) -> str:
    return f"{100 * share:5.1f} %"
