"""A score that says its name, how it was counted, and how far chance may have carried it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.config import require

SEED = 12345
"Of every bootstrap, as in sacrebleu: the same rows give the same interval."

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    "Out of 100, as papers print it; only perplexity and bits have a unit of their own."
    signature: str
    "How it was counted; scores compare only where it is equal."
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
) -> list[Score]:
    """One score a name. `metric` gives their values on the chosen rows, of which some may stand twice.

    A single row says nothing about chance, so it gets no interval.
    """
    values = np.atleast_1d(metric(np.arange(n_rows))) * scale
    if not bootstrap or n_rows < 2:
        return [Score(name, float(value), signature) for name, value in zip(names, values, strict=True)]
    chance = np.random.default_rng(SEED)
    samples = [np.atleast_1d(metric(chance.integers(n_rows, size=n_rows))) * scale for _ in range(bootstrap)]
    # Nearest: between two infinite perplexities there is nothing to interpolate.
    edges = np.percentile(samples, [2.5, 97.5], axis=0, method="nearest")
    signature += f"|bs:{bootstrap}|seed:{SEED}"
    rows = zip(names, values, *edges, strict=True)
    return [Score(name, float(value), signature, float(low), float(high)) for name, value, low, high in rows]


def check_paired(n_predicted: int, n_gold: int, noun: str) -> None:
    require(min(n_predicted, n_gold) > 0, f"there are no {noun} to score", "expected at least one")
    require(n_predicted == n_gold, f"{n_predicted} predicted {noun} for {n_gold} gold ones", "expected one for each")
