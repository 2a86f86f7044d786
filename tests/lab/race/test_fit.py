"""Exponents are the slopes of lines that can be drawn by hand."""

import numpy as np
import pytest

from regard.lab.race.fit import exponent, slope


def test_the_line_through_three_points_is_the_one_found_by_hand() -> None:
    # x̄ = 1, ȳ = 2; Σ(x-x̄)(y-ȳ) = (-1)(-2) + 0 + (1)(3) = 5 over Σ(x-x̄)² = 2
    found = slope({0.0: [0.0], 1.0: [1.0], 2.0: [5.0]})
    assert (found.value, found.low, found.high) == (2.5, 2.5, 2.5)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_a_power_is_found_exactly_and_an_outlier_does_not_move_the_median(power: float) -> None:
    found = exponent({n: [7 * n**power, 7 * n**power, 1e9] for n in (64.0, 128.0, 256.0, 512.0)})
    assert found is not None
    assert found.value == pytest.approx(power, abs=1e-9)


def test_the_interval_holds_the_true_exponent_about_as_often_as_it_says() -> None:
    chance, hits = np.random.default_rng(0), 0
    for _ in range(40):
        noisy = {n: list(3 * n**1.5 * np.exp(chance.normal(0, 0.2, 9))) for n in (128.0, 256.0, 512.0, 1024.0)}
        found = exponent(noisy)
        assert found is not None
        assert found.low <= found.value <= found.high
        hits += found.low <= 1.5 <= found.high
    assert hits >= 32  # 95 % of 40 is 38; chance alone seldom takes more than six of them


def test_one_length_has_no_exponent() -> None:
    assert exponent({128.0: [1.0, 2.0]}) is None
