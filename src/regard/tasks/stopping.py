"""Stop strings: the text ends before the first of them that is complete, wherever the tokens have their borders."""

from collections.abc import Sequence

from regard.config import require


class Stopping:
    """Takes the text piece by piece and lets through what cannot be the beginning of a stop string any more."""

    def __init__(self, stop: Sequence[str]) -> None:
        require(not isinstance(stop, str), "one stop string was given where a list is expected", "write stop=[text]")
        require(all(stop), "a stop string is empty", "it would end every text before its first letter")
        self._stop = tuple(stop)
        self._longest = max(map(len, stop), default=1)
        self._held = ""
        self.is_over = False

    def add(self, piece: str) -> str:
        text = self._held + piece
        found = [(at + len(each), at) for each in self._stop if (at := text.find(each)) >= 0]
        self.is_over = bool(found)
        end = min(found)[1] if found else len(text) - self._n_begun(text)
        self._held = "" if found else text[end:]
        return text[:end]

    def end(self) -> str:
        """What was held back, for no stop string came of it."""
        held, self._held = self._held, ""
        return held

    def _n_begun(self, text: str) -> int:
        """Letters at the end of the text with which a stop string begins."""
        sizes = range(min(len(text), self._longest - 1), 0, -1)
        return next((n for n in sizes if any(each.startswith(text[-n:]) for each in self._stop)), 0)
