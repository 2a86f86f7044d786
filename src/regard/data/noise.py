"""Words drawn by how often they are used: what a true word is told from, where all others would be too many."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.data.shards import Shards

POWER = 0.75
"Of a word's frequency, so that rare words come oftener than in texts (Mikolov et al. 2013b)."
BLOCK = 10_000
"Rows that are counted at once."


def counts_of(shards: Shards, vocab_size: int) -> np.ndarray:
    """How often each id stands in the first column."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for start in range(0, len(shards), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(shards)))
        counts += np.bincount(shards.gather(rows)[0][0], minlength=vocab_size)
    return counts


@dataclass(frozen=True)
class Noise:
    """From the `counts` of all words in the training data."""

    counts: np.ndarray

    @cached_property
    def shares(self) -> np.ndarray:
        """How likely each word is to be drawn (V)."""
        powers = self.counts**POWER
        return np.asarray(powers / powers.sum())

    @cached_property
    def _sums(self) -> np.ndarray:
        return np.cumsum(self.shares)

    def draw(self, chance: np.ndarray) -> np.ndarray:
        """Words for numbers from 0 to 1."""
        return np.searchsorted(self._sums, chance, side="right").clip(max=len(self._sums) - 1)
