"""Items in, the same items out, and on stderr a count of them for whoever waits."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from regard.cli.progress import PLAIN_SECONDS, Line

T = TypeVar("T")

QUIET_SECONDS, LIVE_SECONDS = 2.0, 0.2
"How long a job may take without a word on a terminal, and how often its line is then written anew."


def counted(items: Iterable[T], noun: str) -> Iterator[T]:
    """Silent where results appear on the same terminal: they are progress enough, and would run into the line."""
    if sys.stderr is None or (sys.stdout is not None and sys.stdout.isatty()):
        yield from items
        return
    line, start, count, shown = Line(), time.monotonic(), 0, False
    due = start + (QUIET_SECONDS if line.live else PLAIN_SECONDS)
    try:
        for count, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if now >= due:
                due, shown = now + (LIVE_SECONDS if line.live else PLAIN_SECONDS), True
                line.show(rate(count, noun, now - start))
    finally:
        if shown and line.live:
            line.say(rate(count, noun, time.monotonic() - start))


def rate(count: int, noun: str, seconds: float) -> str:
    return f"{count:,} {noun}, {count / max(seconds, 1e-9):,.1f} a second"
