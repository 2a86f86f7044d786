"""Scores of labels are scikit-learn's, those of numbers scipy's, times 100."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import assume, given
from hypothesis import strategies as st

from faults.refusal import refused
from regard.evaluation.classification import accuracy, f1, macro_f1, matthews, pearson, rmse, spearman
from regard.evaluation.score import Score

pytestmark = pytest.mark.parity

CLOSE = {"rel": 1e-9, "abs": 1e-9}
Metric = Callable[..., Score]


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    return st.lists(st.tuples(values, values), min_size=1, max_size=40)


LABELS = st.sampled_from([["no", "yes"], ["a", "b", "c", "d"], [0, 1, 2], [-1, 1]]).flatmap(
    lambda names: rows_of(st.sampled_from(names))
)
NUMBERS = rows_of(st.integers(-5, 5).map(float)) | rows_of(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)))


def f1_of(**how: Any) -> Callable[..., float]:
    return lambda gold, predicted: sklearn.metrics.f1_score(gold, predicted, zero_division=0.0, **how)


def sklearn_matthews(gold: Sequence[Any], predicted: Sequence[Any]) -> float:
    with warnings.catch_warnings():  # it warns where there is one label in all
        warnings.simplefilter("ignore", UserWarning)
        return float(sklearn.metrics.matthews_corrcoef(gold, predicted))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(accuracy, sklearn.metrics.accuracy_score), (macro_f1, f1_of(average="macro")), (matthews, sklearn_matthews)],
)
@given(rows=LABELS)
def test_scores_of_labels_are_scikit_learns(
    ours: Metric, theirs: Callable[..., float], rows: list[tuple[Any, Any]]
) -> None:
    predicted, gold = zip(*rows, strict=True)
    assert ours(predicted, gold).value == pytest.approx(theirs(gold, predicted) * 100, **CLOSE)
    # In arrays too.
    assert ours(np.array(predicted), np.array(gold)) == ours(predicted, gold)


@given(rows=rows_of(st.sampled_from(["no", "yes"])))
def test_f1_of_a_positive_label_is_scikit_learns(rows: list[tuple[str, str]]) -> None:
    predicted, gold = zip(*rows, strict=True)
    theirs = f1_of(pos_label="yes", average="binary") if len({*predicted, *gold}) > 1 else f1_of(average="micro")
    if {*predicted, *gold} == {"no"}:
        assert f1(predicted, gold, positive="yes").value == 0.0  # nothing to find, nothing found
    else:
        assert f1(predicted, gold, positive="yes").value == pytest.approx(theirs(gold, predicted) * 100, **CLOSE)


@given(rows=rows_of(st.sampled_from("abc")))
def test_among_many_labels_f1_is_of_one_against_all_others(rows: list[tuple[str, str]]) -> None:
    predicted, gold = zip(*rows, strict=True)
    assume(len({*predicted, *gold}) == 1 or "a" in {*predicted, *gold})
    theirs = f1_of(labels=["a"], average=None)(gold, predicted)[0]  # type: ignore[index]
    assert f1(predicted, gold, positive="a").value == pytest.approx(theirs * 100, **CLOSE)


def test_the_error_of_numbers_is_in_their_own_unit() -> None:
    assert rmse([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]).value == pytest.approx((5 / 3) ** 0.5)
    assert rmse([3.0], [3.0]).value == 0.0


@pytest.mark.parametrize(("ours", "theirs"), [(pearson, scipy.stats.pearsonr), (spearman, scipy.stats.spearmanr)])
@given(rows=NUMBERS)
def test_correlations_are_scipys_and_0_where_it_has_none(
    ours: Metric, theirs: Callable[..., Any], rows: list[tuple[float, float]]
) -> None:
    predicted, gold = zip(*rows, strict=True)
    if min(len(set(predicted)), len(set(gold))) == 1:
        assert ours(predicted, gold).value == 0.0
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = theirs(predicted, gold).statistic
    assert not math.isnan(value)
    # Numbers that differ in their last digits only lose as many in the mean.
    assert ours(predicted, gold).value == pytest.approx(value * 100, abs=1e-5)


@pytest.mark.parametrize("metric", [pearson, spearman])
@pytest.mark.parametrize("size", [1e-320, 1e-200, 1.0, 1e200, 1.7e308])
def test_numbers_of_any_size_correlate(metric: Metric, size: float) -> None:
    x = np.array([-1.0, -0.5, 0.0, 0.25, 1.0]) * size
    assert metric(x, x).value == pytest.approx(100.0)
    assert metric(x, [5, 4, 3, 2, 1]).value == pytest.approx(-100.0, abs=3)


def test_constants_that_their_means_miss_by_rounding_are_still_constants() -> None:
    assert np.mean([0.1] * 3) != 0.1
    assert pearson([0.1] * 3, [0.7] * 3).value == 0.0


def test_counts_of_a_large_set_do_not_overflow() -> None:
    gold = np.arange(200_000) % 2
    predicted = np.where(np.arange(200_000) % 10, gold, 1 - gold)
    assert matthews(predicted, gold).value == pytest.approx(sklearn_matthews(gold, predicted) * 100, **CLOSE)


@pytest.mark.parametrize("metric", [accuracy, macro_f1, matthews, pearson, spearman])
def test_the_interval_is_of_the_same_score_on_drawn_rows(metric: Metric) -> None:
    chance = np.random.default_rng(1)
    gold = chance.integers(0, 3, size=200)
    gold[0] = 3  # a third of the samples lack this label
    predicted = np.where(chance.random(200) < 0.8, gold, chance.integers(0, 3, size=200))
    score = metric(predicted, gold, bootstrap=200)
    again = np.random.default_rng(12345)
    drawn = [again.integers(200, size=200) for _ in range(200)]
    values = [metric(predicted[rows], gold[rows]).value for rows in drawn]
    assert (score.low, score.high) == pytest.approx(tuple(np.percentile(values, [2.5, 97.5], method="nearest")))
    assert score.low < score.value < score.high
    assert "bs:200" in score.signature


def test_what_cannot_be_scored_is_refused() -> None:
    with refused("no labels"):
        accuracy([], [])
    with refused("1 predicted labels for 2"):
        macro_f1(["a"], ["a", "b"])
    with refused("'1'", "0, 1"):
        f1([0, 1], [1, 1], positive="1")
    with refused("gold value 2", "nan"):
        pearson([1.0, 2.0], [1.0, math.nan])
    with refused("predicted", "not numbers", "'good'"):
        spearman(["good"], [1.0])  # type: ignore[list-item]


def test_names_and_signatures_tell_the_scores_apart() -> None:
    found = [metric(["a", "b"], ["a", "b"]) for metric in (accuracy, macro_f1, matthews)]
    found += [f1(["a", "b"], ["a", "b"], positive="a"), pearson([1, 2], [1, 2]), spearman([1, 2], [1, 2])]
    assert len({score.name for score in found}) == len(found)
    assert str(found[0]) == "accuracy 100.00"
    assert "positive:a" in found[3].signature
