"""A score that says its name, how it was counted, and how far chance may have carried it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.config import require

SEED = 12345
"Of every bootstrap, as in sacrebleu: the same rows give the same interval."
Z = 1.959963984540054
"Of the normal distribution 95 % lie within so many deviations."

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    "Out of 100, as papers print it; only perplexity and bits have a unit of their own."
    signature: str
    "How it was counted, and last how its interval was; values compare only where the first is equal."
    low: float | None = None
    high: float | None = None
    "Where asked for, what 95 % of the bootstrap samples lie between (BLEU and chrF: sacrebleu's mean and half span)."

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.name} {self.value:.2f}{interval}"


def scored(
    names: Sequence[str],
    metric: Callable[[Rows], ArrayLike],
    n_rows: int,
    *,
    signature: str,
    bootstrap: int,
    scale: float = 100.0,
    lowest: float | None = 0.0,
) -> list[Score]:
    """One score a name. `metric` gives their values on the chosen rows, of which some may stand twice.

    A single row says nothing about chance, so it gets no interval. Samples of rows that are all right are all right
    too, as if chance had no say: at 100, and at 0 where that is the `lowest` value, the interval is Wilson's.
    """
    values = np.atleast_1d(metric(np.arange(n_rows))) * scale
    if not bootstrap or n_rows < 2:
        return [Score(name, float(value), signature) for name, value in zip(names, values, strict=True)]
    chance = np.random.default_rng(SEED)
    samples = [np.atleast_1d(metric(chance.integers(n_rows, size=n_rows))) * scale for _ in range(bootstrap)]
    # Nearest: between two infinite perplexities there is nothing to interpolate.
    edges = np.percentile(samples, [2.5, 97.5], axis=0, method="nearest")
    found = []
    for name, value, low, high in zip(names, values, *edges, strict=True):
        how = f"bs:{bootstrap}|seed:{SEED}"
        if lowest is not None and low == high and (value == 100.0 or value == lowest == 0.0):
            (low, high), how = wilson(value / 100 * n_rows, n_rows), "interval:wilson"
        found.append(Score(name, float(value), f"{signature}|{how}", float(low), float(high)))
    return found


def wilson(hits: float, n: int) -> tuple[float, float]:
    """Between which shares of 100 the true one lies with 95 % (Wilson 1927): sound for few rows, and at 0 and 100."""
    share, square = hits / n, Z * Z / n
    middle = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def check_paired(n_predicted: int, n_gold: int, noun: str) -> None:
    require(min(n_predicted, n_gold) > 0, f"there are no {noun} to score", "expected at least one")
    require(n_predicted == n_gold, f"{n_predicted} predicted {noun} for {n_gold} gold ones", "expected one for each")
