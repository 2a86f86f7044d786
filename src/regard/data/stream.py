"""Texts one after another as one row of tokens, read through windows of equal width: nothing is padded.

A window that holds the end of one text and the beginning of the next holds two rows of `language.py`, not one: no text
sees the one before it, positions start again, and the beginning of a text is not foreseen. Where a window begins is
drawn anew each time it comes round, so that each token meets every place of a window; to validate, windows stand side
by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.corpus import Row
from regard.data.examples import Encoded, OfOneTokenizer
from regard.data.language import TextBatch
from regard.data.mapped import take
from regard.data.shards import Shards
from regard.data.shuffle import chances
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Joined(OfOneTokenizer):
    """A row is a text, or with `whole=False` a piece of one, which has no start and no end. One column: ids."""

    tokenizer: Tokenizer
    whole: bool = True

    @property
    def limits(self) -> tuple[int, ...]:
        return (self.tokenizer.vocab_size,)

    @property
    def rules(self) -> Mapping[str, object]:
        return {"joined": self.whole}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        if len(rows[0]) != 1:
            raise UserError(f"a row has {len(rows[0])} columns", "name that of the text; only texts are joined")
        start, end = ends_of(self.tokenizer)
        before, behind = ([] if id is None or not self.whole else [id] for id in (start, end))
        texts = [row[0] for row in rows]
        for text, ids in zip(texts, self.tokenizer.encode_ids(texts, special=False), strict=True):
            is_empty = not ids or (self.whole and not text.strip())
            yield Encoded([], is_empty=True) if is_empty else Encoded([([*before, *ids, *behind],)])


def ends_of(tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """What begins a text and what ends one; a vocabulary without a start begins with what ends."""
    return tokenizer.eos_id if tokenizer.bos_id is None else tokenizer.bos_id, tokenizer.eos_id


class Windows(Shards):
    """Shards of `Joined`, row by row a window: `width` tokens, and the one behind them to be foreseen.

    Up to `memory` tokens before a window come with it, to be looked back at.
    """

    def __init__(self, shards: Shards, width: int, *, moving: bool, memory: int = 0) -> None:
        super().__init__(shards.folder)
        self.width, self.moving, self.n_ids = width, moving, len(self._ids)
        self.memory = min(memory, self.n_ids - 1)  # what is before the text costs as much as the text
        if self.n_ids < 2:
            raise UserError(f"{self.folder} holds {self.n_ids} token", "give more text")
        self.lengths = np.full((-(-(self.n_ids - 1) // width), 1), width + self.memory)

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, rows: np.ndarray, key: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Ids (B, memory + width + 1) and which of them are there: before the first window nothing is, and of a text
        that stands still the last is short."""
        starts = rows * self.width
        if self.moving:
            moved = starts + (chances(key, rows, 1)[:, 0] * self.width).astype(np.int64)
            starts = np.clip(moved, 0, max(self.n_ids - 1 - self.width, 0))
        places = starts[:, None] + np.arange(-self.memory, self.width + 1)
        real = (places >= 0) & (places < self.n_ids)
        ids = take(self._ids, places.clip(0, self.n_ids - 1).ravel()).reshape(places.shape).astype(np.int64)
        self._check(np.repeat(rows, places.shape[1]), (ids < self._limits[0]).ravel())
        return ids, real


def collate_windows(windows: Windows, rows: np.ndarray, key: tuple[int, ...], tokenizer: Tokenizer) -> TextBatch:
    (ids, real), before = windows.read(rows, key), windows.memory
    start, end = ends_of(tokenizer)
    begins = (ids[:, 1:] == start) & (ids[:, :-1] == end) if end is not None else np.zeros_like(real[:, 1:])
    # the token at place t is foreseen from t - 1, but the first of a text from nothing
    valid = (real[:, 1:] & ~begins)[:, before:]
    begins |= real[:, 1:] & ~real[:, :-1]  # what is not there is as good as another text
    documents = np.pad(begins[:, :-1], ((0, 0), (1, 0))).cumsum(axis=1) if begins[:, :-1].any() else None
    return TextBatch(
        torch.from_numpy(ids[:, :-1].copy()),
        torch.from_numpy(ids[:, 1 + before :].copy()),
        torch.from_numpy(valid),
        int(valid.sum()),
        rows,
        None if documents is None else torch.from_numpy(documents),
    )
