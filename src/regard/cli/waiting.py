"""A sign of life while nothing else is said."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from regard.cli.terminal import Screen, is_live, overwrite, tell, wipe

SILENCE = 2.0
"Seconds that a person waits without a sign."


class Sign:
    """Tells on stderr what takes so long: with running seconds on a terminal, once elsewhere."""

    def __init__(self, what: str, *, is_heard: bool = True) -> None:
        self.over = Event()
        if not is_heard:
            self.over.set()
        self.now(what)
        self.watcher = Thread(target=self._watch, daemon=True)
        if is_heard:
            self.watcher.start()

    def now(self, what: str) -> None:
        """From here on it is this that takes long."""
        self.what, self.began, self.told = what, time.monotonic(), False

    def end(self) -> None:
        if not self.over.is_set():
            self.over.set()
            self.watcher.join()
            wipe()

    def _watch(self) -> None:
        pause = SILENCE
        while not self.over.wait(pause):
            quiet = time.monotonic() - max(self.began, Screen.said_at)
            pause = 1.0 if quiet >= SILENCE else SILENCE - quiet
            if quiet >= SILENCE:
                self._show(f"{self.what} ... {time.monotonic() - self.began:.0f} s")

    def _show(self, text: str) -> None:
        if is_live():
            overwrite(text)
        elif not self.told:
            self.told = True
            tell(text)


@contextmanager
def waiting(what: str, *, is_heard: bool = True) -> Iterator[Sign]:
    sign = Sign(what, is_heard=is_heard)
    try:
        yield sign
    finally:
        sign.end()
