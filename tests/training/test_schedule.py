"""The learning rate is a pure function of the step."""

import math

import pytest

from regard.training.schedule import rate


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "linear", "constant"])
def test_warm_up_is_linear_and_ends_at_the_peak(kind: str) -> None:
    rates = [rate(step, kind=kind, peak=2.0, warmup=10, steps=100) for step in range(10)]
    assert rates == pytest.approx([0.2 * n for n in range(1, 11)])


def test_inverse_sqrt_is_the_papers_formula() -> None:
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), section 5.3."""
    d_model, warmup = 512, 4000
    peak = d_model**-0.5 * warmup**-0.5
    for now in (1, 100, 4000, 4001, 100_000):
        paper = d_model**-0.5 * min(now**-0.5, now * warmup**-1.5)
        assert rate(now - 1, kind="inverse_sqrt", peak=peak, warmup=warmup, steps=1) == pytest.approx(paper)


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_ways_down_would_end_at_zero_after_the_last_step_which_still_learns(kind: str) -> None:
    assert rate(99, kind=kind, peak=1.0, warmup=9, steps=99) == pytest.approx(0.0, abs=1e-12)
    assert rate(98, kind=kind, peak=1.0, warmup=9, steps=99) > 1e-4
    middle = rate(53, kind=kind, peak=1.0, warmup=9, steps=98)
    assert middle == pytest.approx(0.5)
    assert rate(0, kind=kind, peak=1.0, warmup=0, steps=1) >= 0.5  # a run of one step, too


def test_a_constant_stays() -> None:
    assert rate(10**6, kind="constant", peak=0.3, warmup=5, steps=10) == 0.3
    assert math.isfinite(rate(0, kind="cosine", peak=0.3, warmup=0, steps=0))


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_ways_down_end_where_they_are_told_to(kind: str) -> None:
    """Half the way between the peak and the least in the middle, and the least from the last step on."""
    for step, expected in {53: 0.55, 98: 0.1, 500: 0.1}.items():
        assert rate(step, kind=kind, peak=1.0, low=0.1, warmup=9, steps=98) == pytest.approx(expected)
