"""Which rows make an optimizer step: as many as a budget of tokens holds, alike in length.

The order is a pure function of (seed, epoch, step). An epoch is a shuffle cut into windows; the rows of
a window are sorted by length and cut into steps, and its steps are shuffled. So a run stopped anywhere
goes on anywhere, on any number of machines: a step is global, and `split` deals it out.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.config import require
from regard.data.mapped import take
from regard.data.shuffle import Permutation, fold
from regard.errors import UserError

WINDOW = 200_000
"""Rows sorted together. Padding on 194,000 pairs of 9 tokens a side, steps of 6,000 tokens: 8 % with windows
of 20,000 rows, 1.6 % with this one; it needs some 20 MB while it is cut."""


@dataclass(frozen=True)
class Position:
    """Where in the endless row of steps: `step` counts within its epoch."""

    epoch: int = 0
    step: int = 0


class Steps:
    """Steps of at most `budget` tokens, padding and all columns counted; a longer row is a step by itself."""

    def __init__(self, lengths: np.ndarray, *, budget: int, seed: int, window: int = WINDOW) -> None:
        require(budget >= 1, f"the budget is {budget} tokens a step", "expected at least 1")
        require(len(lengths) >= 1, "there are no rows to learn from", "is the data set empty?")
        self.lengths, self.budget, self.seed, self.window = lengths, budget, seed, window
        # Windows of nearly one size: a short last one would be cut into steps of unlike lengths.
        n_windows = max(1, round(len(lengths) / window))
        self._edges = np.arange(n_windows + 1) * len(lengths) // n_windows
        self._counts: dict[int, list[int]] = {}
        "Epoch -> steps of its first windows, as far as they have been asked for."

    def steps(self, position: Position) -> Iterator[tuple[np.ndarray, Position]]:
        """From `position` on and without end: the rows of a step, and the position after it."""
        epoch, window, skip = self._locate(position)
        done = position.step if epoch == position.epoch else 0
        while True:
            steps = self._window(epoch, window)
            last = window + 2 == len(self._edges)
            for i in range(skip, len(steps)):
                done += 1
                over = last and i + 1 == len(steps)
                yield steps[i], Position(epoch + 1, 0) if over else Position(epoch, done)
            window, skip = window + 1, 0
            if last:
                epoch, window, done = epoch + 1, 0, 0

    def steps_in_epoch(self, epoch: int) -> int:
        return sum(self._count(epoch, window) for window in range(len(self._edges) - 1))

    def padding(self, epoch: int) -> float:
        """The share of padding in all that is computed in this epoch."""
        padded = real = 0
        for window in range(len(self._edges) - 1):
            for rows in self._window(epoch, window):
                lengths = take(self.lengths, rows)
                padded += len(rows) * int(lengths.max(axis=0).sum())
                real += int(lengths.sum())
        return 1 - real / padded

    def _locate(self, position: Position) -> tuple[int, int, int]:
        """The epoch, the window and the step in that window; the end of one epoch is the start of the next."""
        left = position.step
        if not left:
            return position.epoch, 0, 0
        for window in range(len(self._edges) - 1):
            count = self._count(position.epoch, window)
            if left < count:
                return position.epoch, window, left
            left -= count
        if left:
            what = f"epoch {position.epoch} has {self.steps_in_epoch(position.epoch):,} steps, not {position.step:,}"
            raise UserError(what, "the position belongs to other data or to another budget")
        return position.epoch + 1, 0, 0

    def _count(self, epoch: int, window: int) -> int:
        counts = self._counts.setdefault(epoch, [])
        while len(counts) <= window:
            counts.append(len(self._cut(epoch, len(counts))))
        return counts[window]

    def _window(self, epoch: int, window: int) -> list[np.ndarray]:
        steps = self._cut(epoch, window)
        order = Permutation(len(steps), (self.seed, epoch, window))(np.arange(len(steps)))
        return [steps[i] for i in order]

    def _cut(self, epoch: int, window: int) -> list[np.ndarray]:
        """The steps of a window, by length."""
        places = np.arange(self._edges[window], self._edges[window + 1])
        rows = Permutation(len(self.lengths), (self.seed, epoch))(places)
        lengths = take(self.lengths, rows).astype(np.int64)
        # Moving the strips keeps the few longest rows from meeting the same neighbours in every epoch.
        order = by_length(lengths, phase=float(fold((self.seed, epoch, window))[0]) / 2**64)
        rows, lengths = rows[order], lengths[order]
        edges = [0]
        while edges[-1] < len(rows):
            edges.append(edges[-1] + self._fitting(lengths[edges[-1] :]))
        return [rows[start:end] for start, end in itertools.pairwise(edges)]

    def _fitting(self, lengths: np.ndarray) -> int:
        """How many of these rows, from the first on, one step holds."""
        at_most = self.budget // max(1, int(lengths[0].sum())) + 1  # no step is narrower than its first row
        widths = np.maximum.accumulate(lengths[:at_most]).sum(axis=1)
        sizes = widths * np.arange(1, len(widths) + 1)  # grows with each row
        return max(1, int(np.searchsorted(sizes, self.budget, side="right")))


def by_length(lengths: np.ndarray, *, phase: float = 0.5) -> np.ndarray:
    """The order that puts like rows together: strips of the last column, in each the first column sorted.

    Lengths of a strip differ by less than 8 %. The sorting turns round from strip to strip, so that the
    first column does not leap from its longest back to its shortest within one step.
    """
    first, last = lengths[:, 0], np.maximum(lengths[:, -1], 1)
    strips = np.unique(np.floor(9 * np.log2(last) + phase), return_inverse=True)[1]
    return np.lexsort((np.where(strips % 2 == 0, first, -first), strips))


def split(rows: np.ndarray, lengths: np.ndarray, parts: int) -> list[np.ndarray]:
    """A step's rows in `parts` of nearly as many tokens, like lengths together; `lengths` are those of all rows.

    No part is empty unless there are more parts than rows.
    """
    own = take(lengths, rows).astype(np.int64)
    order = by_length(own)
    ends = np.cumsum(own[order].sum(axis=1))
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts) + 1
    if parts < len(rows):
        least = np.arange(1, parts)
        cuts = np.minimum(np.maximum.accumulate(np.maximum(cuts - least, 0)) + least, len(rows) - parts + least)
    else:
        cuts = np.minimum(np.arange(1, parts), len(rows))
    return np.split(rows[order], cuts)
