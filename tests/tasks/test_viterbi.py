"""The best way is the best of all ways."""

from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.tasks.viterbi import best_path

scores = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        arrays.arrays(float, st.tuples(st.integers(0, 5), st.just(n)), elements=st.integers(-9, 9).map(float)),
        arrays.arrays(bool, (n + 1, n)),
    )
)


@given(scores)
def test_it_is_the_best_of_all_allowed_ways(table: tuple[np.ndarray, np.ndarray]) -> None:
    rows, steps = table
    steps[:, 0] = True  # one way is always open
    ways = [
        way
        for way in product(range(rows.shape[1]), repeat=len(rows))
        if all(steps[one, other] for one, other in pairwise((-1, *way)))
    ]
    ours = best_path(rows, steps)
    assert tuple(ours) in ways
    assert sum(rows[i, column] for i, column in enumerate(ours)) == max(
        sum(rows[i, column] for i, column in enumerate(way)) for way in ways
    )
