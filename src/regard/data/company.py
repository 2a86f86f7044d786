"""A word and its company, for word vectors (Mikolov et al. 2013): who is near whom, and who was only drawn.

As in the authors' program: frequent words are left out now and then, so that the others come nearer; each word draws
how far it looks; and what it is compared with is drawn by frequency to the power of 3/4. There each pair draws words
of its own; here all words of a step share theirs, many more of them, weighted to count the same: the work is then a few
matrix products. All draws are functions of the key and the row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Row
from regard.data.examples import Encoded, OfOneTokenizer
from regard.data.noise import Noise
from regard.data.pairs import padded
from regard.data.shards import Shards
from regard.data.shuffle import chances
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class KnownWords(OfOneTokenizer):
    """The known words of each text; what is unknown is passed over. A long text is cut."""

    tokenizer: Tokenizer
    max_len: int

    @property
    def limits(self) -> tuple[int, ...]:
        return (self.tokenizer.vocab_size,)

    @property
    def rules(self) -> Mapping[str, object]:
        return {"max_len": self.max_len, "known": True}

    @cached_property
    def _passed_over(self) -> set[int | None]:
        return {self.tokenizer.id_of(token) for token in self.tokenizer.special.values()}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        for ids in self.tokenizer.encode_ids([row[0] for row in rows], special=False):
            known = [id for id in ids if id not in self._passed_over]
            pieces = [known[at : at + self.max_len] for at in range(0, len(known), self.max_len)]
            in_company = [(piece,) for piece in pieces if len(piece) > 1]
            yield Encoded(in_company, not in_company, len(known) if len(pieces) > 1 else 0)


@dataclass
class CompanyBatch:
    ids: Tensor  # (B, T)
    "The words that were not left out; behind them padding."
    near: Tensor  # (B, T, T)
    "True where the second word is near the first."
    negatives: Tensor  # (K)
    "The words drawn."
    weights: Tensor  # (B, T, K)
    "How much each drawn word counts against each word."
    n_targets: int
    "Pairs of skip-gram, words of CBOW."
    rows: np.ndarray

    def without_targets(self) -> Self:
        return replace(self, near=torch.zeros_like(self.near), weights=torch.zeros_like(self.weights), n_targets=0)


@dataclass(frozen=True)
class Company:
    """What is drawn, from the `counts` of all words in the training data."""

    counts: np.ndarray
    window: int
    negatives: int
    drawn: int
    subsample: float
    by_pairs: bool
    "Whether each pair is a question, as in skip-gram, or each word, as in CBOW."
    pad_id: int

    @cached_property
    def kept(self) -> np.ndarray:
        """The probability that a word is not left out (V)."""
        share = self.counts / max(self.counts.sum(), 1)
        if not self.subsample:
            return np.ones_like(share)
        ratio = self.subsample / np.maximum(share, 1e-30)
        return np.minimum(1, np.sqrt(ratio) + ratio)

    @cached_property
    def noise(self) -> Noise:
        return Noise(self.counts)

    def __call__(self, shards: Shards, rows: np.ndarray, *, key: tuple[int, ...]) -> CompanyBatch:
        ids, valid = padded(*shards.gather(rows)[0], self.pad_id)
        ids, valid = self._thinned(ids, valid, chances((*key, 0), rows, ids.shape[1]))
        reach = 1 + (chances((*key, 1), rows, ids.shape[1]) * self.window).astype(np.int64)  # (B, T)
        place = np.arange(ids.shape[1])
        distance = np.abs(place[:, None] - place)  # (T, T)
        near = (distance > 0) & (distance <= reach[..., None]) & valid[:, :, None] & valid[:, None]  # (B, T, T)
        negatives = self.noise.draw(chances((*key, 2), np.zeros(1), self.drawn)[0])  # (K)
        return CompanyBatch(
            torch.from_numpy(ids),
            torch.from_numpy(near),
            torch.from_numpy(negatives),
            self._weights(ids, torch.from_numpy(near), negatives),
            int(near.sum() if self.by_pairs else near.any(-1).sum()),
            rows,
        )

    def _thinned(self, ids: np.ndarray, valid: np.ndarray, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept = valid & (chance < self.kept[ids])
        lengths = kept.sum(axis=1)
        return padded(ids[kept], lengths, self.pad_id) if lengths.any() else (ids[:, :1], kept[:, :1])

    def _weights(self, ids: np.ndarray, near: Tensor, negatives: np.ndarray) -> Tensor:
        """A drawn word never counts against itself."""
        other = torch.from_numpy(ids[:, :, None] != negatives).float()  # (B, T, K)
        asked = near.float() @ other if self.by_pairs else near.any(-1)[..., None] * other
        return asked * (self.negatives / self.drawn)
