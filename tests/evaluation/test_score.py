"""The interval is the bootstrap's, the same every time, and absent where nothing is known of chance."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.evaluation.score import SEED, check_paired, scored

VALUES = np.random.default_rng(0).normal(0.5, 0.1, size=400)


def mean(rows: np.ndarray) -> float:
    return float(VALUES[rows].mean())


def test_the_interval_of_a_mean_is_the_textbooks() -> None:
    (score,) = scored(["mean"], mean, len(VALUES), signature="", bootstrap=2000)
    half = 1.96 * VALUES.std() / np.sqrt(len(VALUES)) * 100
    assert score.value == pytest.approx(VALUES.mean() * 100)
    assert (score.low, score.high) == pytest.approx((score.value - half, score.value + half), abs=half / 10)


def test_the_same_rows_give_the_same_interval_and_its_signature_says_how() -> None:
    first, again = (scored(["mean"], mean, len(VALUES), signature="x:y", bootstrap=50) for _ in range(2))
    assert first == again
    assert first[0].signature == f"x:y|bs:50|seed:{SEED}"


def test_several_scores_are_drawn_from_the_same_samples() -> None:
    both = scored(["a", "b"], lambda rows: [mean(rows), 1 - mean(rows)], len(VALUES), signature="", bootstrap=100)
    assert both[0].low == pytest.approx(100 - both[1].high)
    assert both[0] == scored(["a"], mean, len(VALUES), signature="", bootstrap=100)[0]


def test_without_samples_or_with_a_single_row_there_is_no_interval() -> None:
    for n_rows, bootstrap in ((10, 0), (1, 100)):
        (score,) = scored(["mean"], mean, n_rows, signature="s", bootstrap=bootstrap)
        assert (score.low, score.high, score.signature) == (None, None, "s")


def test_nothing_and_uneven_lists_are_refused() -> None:
    with pytest.raises(UserError, match="no labels to score"):
        check_paired(0, 0, "labels")
    with pytest.raises(UserError, match="1 predicted labels for 2"):
        check_paired(1, 2, "labels")


@pytest.mark.parametrize(("value", "interval"), [(100, (93.98, 100)), (0, (0, 6.02))])
def test_all_right_and_all_wrong_leave_something_to_chance(value: float, interval: tuple[float, float]) -> None:
    right = np.full(60, value / 100)
    (found,) = scored(["share"], lambda rows: right[rows].mean(), 60, signature="", bootstrap=50)
    assert (found.low, found.high) == pytest.approx(interval, abs=0.01)  # Wilson's, by hand: 60 / (60 + 1.96^2)
    (found,) = scored(["r"], lambda rows: right[rows].mean(), 60, signature="", bootstrap=50, lowest=None)
    assert (found.low, found.high) == (value, value)
