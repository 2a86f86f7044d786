"""A computed shuffle is a shuffle: every number once, the same each time, and without a pattern."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.shuffle import Permutation

KEYS = st.lists(st.integers(), max_size=4).map(tuple)


@given(st.integers(1, 2_000), KEYS)
def test_every_number_comes_exactly_once(n: int, key: tuple[int, ...]) -> None:
    assert np.array_equal(np.sort(Permutation(n, key)(np.arange(n))), np.arange(n))


@given(st.integers(1, 2**62), KEYS, st.lists(st.integers(0, 2**62), min_size=1, unique=True))
def test_it_is_one_to_one_within_any_range(n: int, key: tuple[int, ...], places: list[int]) -> None:
    positions = np.unique(np.array(places) % n)
    numbers = Permutation(n, key)(positions)
    assert len(np.unique(numbers)) == len(positions)
    assert numbers.min() >= 0
    assert numbers.max() < n


def test_it_is_a_function_of_the_key_and_of_each_position_alone() -> None:
    permutation = Permutation(10_000, (3, 1, 4))
    whole = permutation(np.arange(10_000))
    assert np.array_equal(Permutation(10_000, (3, 1, 4))(np.arange(5_000, 5_010)), whole[5_000:5_010])
    # Written down: a run that is resumed with another version must find the same order.
    assert Permutation(1_000, (1, 2))(np.arange(8)).tolist() == [573, 966, 106, 27, 554, 183, 636, 332]


def test_keys_that_differ_give_orders_that_differ() -> None:
    keys = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (-1,), (2**63,), (1, 2, 3), (3, 2, 1)]
    orders = {tuple(Permutation(100, key)(np.arange(100)).tolist()) for key in keys}
    assert len(orders) == len(keys)


@pytest.mark.parametrize("n", [1_000, 65_536, 99_991])
def test_a_number_has_nothing_to_do_with_its_place_or_its_neighbour(n: int) -> None:
    numbers = Permutation(n, (7, n))(np.arange(n))
    bound = 5 / np.sqrt(n)  # five standard deviations
    assert abs(np.corrcoef(numbers, np.arange(n))[0, 1]) < bound
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < bound
    assert abs(np.corrcoef(numbers, Permutation(n, (8, n))(np.arange(n)))[0, 1]) < bound


@pytest.mark.parametrize("n", [2, 3, 10, 17, 50])
def test_over_many_keys_each_number_is_as_often_in_each_place(n: int) -> None:
    trials = 1_000
    counts = np.zeros((n, n))
    for seed in range(trials):
        counts[np.arange(n), Permutation(n, (seed, 5))(np.arange(n))] += 1
    freedom = (n - 1) ** 2
    chi_square = ((counts - trials / n) ** 2 / (trials / n)).sum()
    assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)
