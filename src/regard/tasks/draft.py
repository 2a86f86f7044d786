"""A text while it is written: tokens in, and out what of it is sure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.tasks.stopping import Stopping
from regard.text.piecewise import HALF, Piecewise
from regard.text.tokenizer import Tokenizer

Reason = Literal["end", "stop", "limit"]


@dataclass(frozen=True)
class Generation:
    text: str
    ids: tuple[int, ...]
    "All that was written: the end and the tokens of a stop string too."
    reason: Reason
    "Why it ended: 'end' (the model said so), 'stop' (a stop string) or 'limit'."

    def __str__(self) -> str:
        return self.text


class Draft:
    def __init__(self, tokenizer: Tokenizer, end_ids: Collection[int], stop: Sequence[str]) -> None:
        self._decoding, self._stopping = Piecewise(tokenizer), Stopping(stop)
        self._end_ids = end_ids
        self._ids: list[int] = []
        self._pieces: list[str] = []
        self.reason: Reason | None = None

    def add(self, id: int) -> str:
        """What may be shown now; nothing more once there is a reason to end."""
        if self.reason:
            return ""
        self._ids.append(id)
        if id in self._end_ids:
            return self.close("end")
        return self._grow(self._decoding.add(id))

    def close(self, reason: Reason = "limit") -> str:
        """What was held back until it was known that nothing follows."""
        if self.reason:
            return ""
        held = self._decoding.end()
        if reason == "limit":
            held = held.removesuffix(HALF)  # a letter that the limit cut through
        piece = self._grow(held)
        if self.reason:  # half a character was the last of a stop string
            return piece
        self.reason = reason
        rest = self._stopping.end()
        self._pieces.append(rest)
        return piece + rest

    def _grow(self, text: str) -> str:
        piece = self._stopping.add(text)
        self._pieces.append(piece)
        if self._stopping.is_over:
            self.reason = "stop"
        return piece

    def generation(self) -> Generation:
        assert self.reason, "the text is still written"
        return Generation("".join(self._pieces), tuple(self._ids), self.reason)


def fill(drafts: Sequence[Draft], columns: Iterable[Sequence[int]]) -> None:
    """With the next id of each in turn, until all have ended. One that met its stop string takes no more of them."""
    for column in columns:
        for draft, id in zip(drafts, column, strict=True):
            draft.add(id)
        if all(draft.reason for draft in drafts):
            return
    for draft in drafts:
        draft.close()
