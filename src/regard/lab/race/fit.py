"""How fast a number grows: y = c n^k is a line of slope k on paper with two logarithmic axes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.evaluation.score import SEED

SAMPLES = 1000


@dataclass(frozen=True)
class Slope:
    value: float
    low: float
    high: float
    "95 % of the bootstrap samples lie between."

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def exponent(measured: Mapping[float, Sequence[float]]) -> Slope | None:
    """The exponent k through the medians at each n; None from a single length, through which no line is fitted."""
    return None if len(measured) < 2 else slope({math.log(n): [math.log(y) for y in ys] for n, ys in measured.items()})


def slope(measured: Mapping[float, Sequence[float]]) -> Slope:
    """Least squares through the median at each x. The bootstrap draws again among the repetitions at each x."""
    xs = np.array(list(measured), dtype=np.float64)
    value = _line(xs, np.array([np.median(ys) for ys in measured.values()]))
    chance = np.random.default_rng(SEED)
    medians = [np.median(chance.choice(ys, (SAMPLES, len(ys))), axis=1) for ys in measured.values()]
    samples = [_line(xs, ys) for ys in np.stack(medians, axis=1)]
    low, high = np.percentile(samples, [2.5, 97.5])
    return Slope(value, float(low), float(high))


def _line(xs: np.ndarray, ys: np.ndarray) -> float:
    apart = xs - xs.mean()
    return float(apart @ (ys - ys.mean()) / (apart @ apart))
