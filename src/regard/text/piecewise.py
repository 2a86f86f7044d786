"""Ids to text as they come: the pieces, joined, are exactly what `decode` makes of all the ids.

What a token stands for depends on little but itself: on whether it is the first, on bytes before it that began a
character, and on its neighbours in a run of byte tokens, which are text only if all of the run is. So the new ids are
decoded behind a few old ones, never behind all, and what the next id may still change is held back.
"""

from regard.text.explain import BYTES
from regard.text.tokenizer import Tokenizer

HALF = "\ufffd"
"Stands for bytes that are no character, or are not one yet; the last of them alone may still become one."
KEPT, LETTERS = 8, 4
"Old ids behind which new ones are decoded, more where these show fewer letters; a character has at most four bytes."


class Piecewise:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._bytes = {tokenizer.id_of(name) for name in BYTES}
        self._ids: list[int] = []
        self._n_shown, self._n_kept = 0, KEPT

    def add(self, id: int) -> str:
        """What is sure now."""
        if self._tokenizer.is_silent(id):
            return ""
        self._ids.append(id)
        if id in self._bytes:  # text or not: known at the end of the run
            return ""
        text = self._tokenizer.decode(self._ids)
        shown, self._n_shown = self._n_shown, n_settled(text)
        if len(self._ids) >= 2 * self._n_kept:
            self._forget()
        return text[shown : n_settled(text)]

    def end(self) -> str:
        """What was held back."""
        return self._tokenizer.decode(self._ids)[self._n_shown :]

    def _forget(self) -> None:
        kept = self._ids[-self._n_kept :]
        settled = n_settled(self._tokenizer.decode(kept))
        if settled >= LETTERS:
            self._ids, self._n_shown = kept, settled
        else:
            self._n_kept *= 2


def n_settled(text: str) -> int:
    return len(text) - text.endswith(HALF)
