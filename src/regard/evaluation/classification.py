"""Labels and numbers against the right ones, as scikit-learn and scipy define the scores.

What has no value is 0: F1 of a label that nobody gave, Matthews' coefficient where one side has a single label
(both as in scikit-learn), and the correlation of a constant (where scipy says nan, which no log can hold).
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.evaluation.score import Rows, Score, check_paired, scored

Labels = Sequence[Hashable]
Numbers = NDArray[np.float64]


class Counts(NamedTuple):
    """Of each label: how many rows have it on both sides, how many were predicted to, how many should."""

    both: Numbers
    predicted: Numbers
    gold: Numbers


def accuracy(predicted: Labels, gold: Labels, *, bootstrap: int = 0) -> Score:
    return _of_labels("accuracy", _accuracy, predicted, gold, bootstrap, "rows:all")


def f1(predicted: Labels, gold: Labels, *, positive: Hashable, bootstrap: int = 0) -> Score:
    """Of one label against all others."""
    names = _names(predicted, gold)
    if positive not in names and len(names) > 1:
        raise UserError(f"no row has the label {positive!r}", f"the labels are {', '.join(sorted(map(repr, names)))}")
    place = names.get(positive)

    def metric(counts: Counts) -> float:
        return 0.0 if place is None else float(_each_f1(counts)[place])

    return _of_labels("F1", metric, predicted, gold, bootstrap, f"positive:{positive}")


def macro_f1(predicted: Labels, gold: Labels, *, bootstrap: int = 0) -> Score:
    """The plain mean over the labels that either side gave, rare ones as heavy as frequent ones."""
    return _of_labels("macro-F1", _macro_f1, predicted, gold, bootstrap, "average:macro|labels:given")


def matthews(predicted: Labels, gold: Labels, *, bootstrap: int = 0) -> Score:
    """Matthews' coefficient; of more than two labels Gorodkin's (2004), as in scikit-learn."""
    return _of_labels("Matthews", _matthews, predicted, gold, bootstrap, "labels:given", lowest=-100.0)


def pearson(predicted: Sequence[float], gold: Sequence[float], *, bootstrap: int = 0) -> Score:
    return _of_numbers("Pearson", _correlation, predicted, gold, bootstrap, "constant:0")


def spearman(predicted: Sequence[float], gold: Sequence[float], *, bootstrap: int = 0) -> Score:
    """Pearson's correlation of the ranks; equal numbers share the mean of theirs."""

    def metric(x: Numbers, y: Numbers) -> float:
        return _correlation(_ranks(x), _ranks(y))

    return _of_numbers("Spearman", metric, predicted, gold, bootstrap, "constant:0|ties:mean")


def rmse(predicted: Sequence[float], gold: Sequence[float], *, bootstrap: int = 0) -> Score:
    """How far off the numbers are, in their own unit: the root of the mean squared error. Less is better."""

    def metric(x: Numbers, y: Numbers) -> float:
        return float(np.sqrt(np.square(x - y).mean()))

    return _of_numbers("RMSE", metric, predicted, gold, bootstrap, "unit:own", scale=1.0)


# ---- labels


def _names(predicted: Labels, gold: Labels) -> dict[Hashable, int]:
    return {label: place for place, label in enumerate(dict.fromkeys([*gold, *predicted]))}


def _of_labels(
    name: str, metric: Callable[[Counts], float], predicted: Labels, gold: Labels, bootstrap: int, signature: str,
    lowest: float = 0.0,
) -> Score:  # fmt: skip
    check_paired(len(predicted), len(gold), "labels")
    names = _names(predicted, gold)
    given, right = (np.array([names[label] for label in side]) for side in (predicted, gold))

    def of_rows(rows: Rows) -> float:
        ours, theirs = given[rows], right[rows]
        sides = ours[ours == theirs], ours, theirs
        # Floats: products of counts outgrow 64 bits.
        return metric(Counts(*(np.bincount(side, minlength=len(names)).astype(np.float64) for side in sides)))

    return scored([name], of_rows, len(gold), signature=signature, bootstrap=bootstrap, lowest=lowest)[0]


def _accuracy(counts: Counts) -> float:
    return float(counts.both.sum() / counts.gold.sum())


def _each_f1(counts: Counts) -> Numbers:
    return 2 * counts.both / np.maximum(counts.predicted + counts.gold, 1)


def _macro_f1(counts: Counts) -> float:
    return float(_each_f1(counts)[counts.predicted + counts.gold > 0].mean())


def _matthews(counts: Counts) -> float:
    n = counts.gold.sum()
    together = counts.both.sum() * n - counts.predicted @ counts.gold
    spreads = [n * n - side @ side for side in (counts.predicted, counts.gold)]
    return float(together / np.sqrt(spreads[0] * spreads[1])) if min(spreads) > 0 else 0.0


# ---- numbers


def _of_numbers(
    name: str,
    metric: Callable[[Numbers, Numbers], float],
    predicted: Sequence[float],
    gold: Sequence[float],
    bootstrap: int,
    signature: str,
    *,
    scale: float = 100.0,
) -> Score:
    check_paired(len(predicted), len(gold), "numbers")
    x, y = _finite(predicted, "predicted"), _finite(gold, "gold")
    (found,) = scored(
        [name],
        lambda rows: metric(x[rows], y[rows]),
        len(y),
        signature=signature,
        bootstrap=bootstrap,
        scale=scale,
        lowest=None,
    )
    return found


def _finite(values: Sequence[float], which: str) -> Numbers:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"the {which} values are not numbers: {error}", "labels go with accuracy or F1") from error
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise UserError(f"{which} value {wrong[0] + 1} is {numbers[wrong[0]]}", "mend or leave out its row")
    return numbers


def _correlation(x: Numbers, y: Numbers) -> float:
    if x.min() == x.max() or y.min() == y.max():
        return 0.0
    x, y = _centred(x), _centred(y)
    norms = np.linalg.norm(x) * np.linalg.norm(y)
    return float(np.clip(x @ y / norms, -1.0, 1.0)) if norms else 0.0


def _centred(values: Numbers) -> Numbers:
    """Around zero, and first of a size whose squares neither overflow nor vanish; a power of two rounds nothing."""
    scaled = np.ldexp(values, -np.frexp(np.abs(values).max())[1])
    return scaled - scaled.mean()


def _ranks(values: Numbers) -> Numbers:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
