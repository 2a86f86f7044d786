"""How many are done, how fast, and when it will be all: for whoever waits."""

import sys
import time
from typing import Any

from regard.cli.progress import PLAIN_SECONDS, Line, duration
from regard.cli.terminal import tell, wipe

QUIET_SECONDS, LIVE_SECONDS = 2.0, 0.2
"How long a job may take without a word on a terminal, and how often its line is then written anew."


def tell_of_cuts(task: Any) -> None:
    """Whoever gives a long text should know that its end was not read."""
    if n_cut := getattr(task, "n_cut", 0):
        texts = "1 text has" if n_cut == 1 else f"{n_cut:,} texts have"
        tell(f"note: {texts} more than the {task.max_len} tokens that the model reads; the rest was left out")


class Count(Line):
    """A job on one line; silent while it is short. What is left is told where the `total` is known."""

    def __init__(self, noun: str, total: int | None = None) -> None:
        super().__init__()
        self.noun, self.total = noun, total
        self.start, self.done, self.is_shown = time.monotonic(), 0, False
        self.due = self.start + (QUIET_SECONDS if self.live else PLAIN_SECONDS)

    def heard(self, done: int) -> None:
        self.done, now = done, time.monotonic()
        if now >= self.due:
            self.due, self.is_shown = now + (LIVE_SECONDS if self.live else PLAIN_SECONDS), True
            self.show(self.text())

    def make_room(self) -> None:
        """Results that go to the same terminal must not run into the line."""
        if self.live and sys.stdout is not None and sys.stdout.isatty():
            wipe()

    def close(self) -> None:
        if self.is_shown and self.live:
            self.say(self.text())

    def text(self) -> str:
        speed = self.done / max(time.monotonic() - self.start, 1e-9)
        if self.total is None or self.done >= self.total or not speed:
            return f"{self.done:,} {self.noun}, {speed:,.1f} a second"
        left = duration((self.total - self.done) / speed)
        return f"{self.done:,}/{self.total:,} {self.noun}, {speed:,.1f} a second, {left} left"
