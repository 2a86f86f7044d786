"""Every mask equals a slow loop over its definition: True where the query may attend to the key."""

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers.mask import Mask, positions_of

CPU = torch.device("cpu")
flags = st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=3)


def by_loop(rows: int, n_queries: int, n_keys: int, may: Any) -> torch.Tensor:
    """(B, 1, T, S) from may(row, query, key), where the last query stands at the place of the last key."""
    first = n_keys - n_queries
    cells = [[[bool(may(b, t + first, s)) for s in range(n_keys)] for t in range(n_queries)] for b in range(rows)]
    return torch.tensor(cells)[:, None]


def test_no_rule_is_no_mask() -> None:
    assert Mask().dense(3, 5, CPU) is None
    assert Mask(grid=(2, 2), n_global=1).dense(5, 5, CPU) is None


@given(n_queries=st.integers(1, 7), more=st.integers(0, 4))
def test_causal_sees_its_own_place_and_those_before(n_queries: int, more: int) -> None:
    n_keys = n_queries + more
    expected = by_loop(1, n_queries, n_keys, lambda _, t, s: s <= t)
    assert torch.equal(Mask(causal=True).dense(n_queries, n_keys, CPU), expected)


@given(valid=flags, n_queries=st.integers(1, 7), causal=st.booleans())
def test_padding_is_seen_by_nobody(valid: list[list[bool]], n_queries: int, causal: bool) -> None:
    n_queries = 6 if causal else n_queries
    expected = by_loop(len(valid), n_queries, 6, lambda b, t, s: valid[b][s] and (s <= t or not causal))
    assert torch.equal(Mask(valid=torch.tensor(valid), causal=causal).dense(n_queries, 6, CPU), expected)


@given(n_queries=st.integers(1, 7), more=st.integers(0, 4), window=st.integers(0, 8), causal=st.booleans())
def test_a_window_reaches_so_many_steps_to_either_side(n_queries: int, more: int, window: int, causal: bool) -> None:
    n_keys = n_queries + more
    expected = by_loop(1, n_queries, n_keys, lambda _, t, s: abs(t - s) <= window and (s <= t or not causal))
    assert torch.equal(Mask(window=window, causal=causal).dense(n_queries, n_keys, CPU), expected)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2))
def test_a_window_on_the_grid_is_a_square_around_the_patch(rows: int, columns: int, window: int, n_global: int) -> None:
    """Leading tokens (class, distillation) see all and are seen by all."""

    def may(_: int, t: int, s: int) -> bool:
        if t < n_global or s < n_global:
            return True
        (q_row, q_column), (k_row, k_column) = (divmod(place - n_global, columns) for place in (t, s))
        return abs(q_row - k_row) <= window and abs(q_column - k_column) <= window

    n = rows * columns + n_global
    mask = Mask(window=window, grid=(rows, columns), n_global=n_global)
    assert torch.equal(mask.dense(n, n, CPU), by_loop(1, n, n, may))


@settings(max_examples=50)
@given(st.data())
def test_with_a_decoding_state_each_query_stands_where_its_row_says(data: st.DataObject) -> None:
    rows, n_queries, n_keys = (data.draw(st.integers(1, 4)) for _ in range(3))
    line = st.lists(st.integers(0, n_keys - 1), min_size=n_queries, max_size=n_queries)
    positions = data.draw(st.lists(line, min_size=rows, max_size=rows))
    window = data.draw(st.none() | st.integers(0, 3))
    ours = Mask(causal=True, positions=torch.tensor(positions), window=window).dense(n_queries, n_keys, CPU)
    for b in range(rows):
        for t in range(n_queries):
            place = positions[b][t]
            expected = [s <= place and (window is None or place - s <= window) for s in range(n_keys)]
            assert ours is not None
            assert ours[b, 0, t].tolist() == expected


def test_the_tensor_is_built_once_for_all_layers() -> None:
    mask = Mask(causal=True)
    assert mask.dense(4, 4, CPU) is mask.dense(4, 4, CPU)
    assert mask.dense(2, 4, CPU) is not mask.dense(4, 4, CPU)


def test_only_a_mask_with_no_other_rule_is_plain_causal() -> None:
    assert Mask(causal=True).is_plain_causal
    others: list[dict[str, Any]] = [
        {"valid": torch.ones(1, 3).bool()},
        {"window": 2},
        {"positions": torch.zeros(1, 3).long()},
        {"causal": False},
    ]
    assert not any(Mask(**{"causal": True} | rule).is_plain_causal for rule in others)


@given(valid=flags)
def test_positions_count_real_tokens_from_zero(valid: list[list[bool]]) -> None:
    ours = positions_of(torch.tensor(valid), 6, CPU)
    for row, line in zip(ours.tolist(), valid, strict=True):
        real = [place for place, flag in zip(row, line, strict=True) if flag]
        assert real == list(range(sum(line)))
        assert all(0 <= place < max(1, sum(line)) for place in row)  # padding, too, has a place that exists
    assert positions_of(None, 6, CPU).tolist() == [list(range(6))]
