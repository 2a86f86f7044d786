"""A shuffle that needs no memory: where each position goes is computed, not drawn.

A Feistel network turns any keyed function into a permutation of pairs; every position is such a pair
(left, right). Numbers past the end are sent through again until they land inside (cycle walking).
The order is a pure function of its key, so it is the same on every machine and after every restart.
"""

import math

import numpy as np

ROUNDS = 16
WORD = (1 << 64) - 1


def mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: a bijection of 64-bit words in which every bit depends on every bit."""
    x = x.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fold(key: tuple[int, ...]) -> np.ndarray:
    """One word out of several numbers; the order of the numbers and their count matter."""
    state = np.array([len(key)], dtype=np.uint64)
    for number in key:
        state = mix(mix(state) + np.array([number & WORD], dtype=np.uint64))
    return state


class Permutation:
    """`permutation(positions)` are the numbers at these positions of a shuffled `range(n)`."""

    def __init__(self, n: int, key: tuple[int, ...]) -> None:
        assert n >= 1, "nothing to shuffle"
        self.n = n
        # left < a and right < b with a * b only a little above n: hardly a number lands outside.
        self._a = math.isqrt(n - 1) + 1
        self._b = -(-n // self._a)
        golden = np.arange(1, ROUNDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._keys = mix(fold(key) + golden)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        assert positions.ndim == 1, "positions are a list"
        numbers = self._once(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(numbers >= self.n)):
            numbers[outside] = self._once(numbers[outside])
        return numbers.astype(np.int64)

    def _once(self, numbers: np.ndarray) -> np.ndarray:
        left, right = numbers // np.uint64(self._b), numbers % np.uint64(self._b)
        for i in range(0, ROUNDS, 2):
            left = (left + _half(right, self._keys[i])) % np.uint64(self._a)
            right = (right + _half(left, self._keys[i + 1])) % np.uint64(self._b)
        return left * np.uint64(self._b) + right


def _half(numbers: np.ndarray, key: np.uint64) -> np.ndarray:
    return mix(numbers ^ key) >> np.uint64(1)  # a bit of room, so that adding cannot wrap around


def chances(key: tuple[int, ...], rows: np.ndarray, width: int) -> np.ndarray:
    """A number from 0 to 1 for each place (row, position): the same for a row whatever its neighbours are."""
    places = mix(fold(key) + rows.astype(np.uint64))[:, None] + np.arange(width, dtype=np.uint64)
    return (mix(places) >> np.uint64(11)).astype(np.float64) / 2**53
