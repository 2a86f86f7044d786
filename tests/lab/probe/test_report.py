"""Ctrl-C keeps what is done; means have the interval of their values; rows are drawn by the seed."""

from collections.abc import Iterator
from typing import Any

import pytest

from regard.lab.probe.pairs import Pair
from regard.lab.probe.report import Measure, Part, mean, run, share
from regard.lab.probe.sets import Rows, shipped


class Counting(Part):
    name, says, says_not = "counting", "how many", "which"

    def __init__(self, n: int, stop_at: int | None = None) -> None:
        self.rows, self.stop_at = Rows("numbers", "", tuple(range(n))), stop_at

    def outcomes(self) -> Iterator[int]:
        for i in self.rows.rows:
            if i == self.stop_at:
                raise KeyboardInterrupt
            yield i

    def measures(self, outcomes: list[Any]) -> list[Measure]:
        return [share("even", sum(each % 2 == 0 for each in outcomes), len(outcomes))]


def test_what_was_done_before_ctrl_c_is_reported() -> None:
    heard: list[int] = []
    findings, stop = run([Counting(3), Counting(5, stop_at=2), Counting(4)], heard.append)
    assert isinstance(stop, KeyboardInterrupt)
    assert [(each.done, each.of) for each in findings] == [(3, 3), (2, 5)]
    assert heard == [1, 2, 3, 4, 5]


def test_without_ctrl_c_all_is_done() -> None:
    findings, stop = run([Counting(3), Counting(5)], lambda _: None)
    assert stop is None
    assert [(each.name, each.done) for each in findings] == [("counting", 3), ("counting", 5)]


def test_nothing_is_said_of_a_part_of_which_nothing_was_done() -> None:
    assert run([Counting(3, stop_at=0)], lambda _: None)[0] == []


def test_a_mean_has_the_interval_of_its_values() -> None:
    found = mean("m", [1.0, 2.0, 3.0], unit="x", shown=lambda value: 10 * value)
    assert found.value == pytest.approx(20)
    assert found.low is not None
    assert found.high is not None
    assert 10 <= found.low < 20 < found.high <= 30
    assert mean("m", [1.0], unit="x").low is None


def test_rows_are_drawn_by_the_seed_and_keep_their_order() -> None:
    rows = shipped("pairs", Pair)
    one, again, other = (rows.some(9, seed) for seed in (3, 3, 4))
    assert one == again != other
    places = [rows.rows.index(row) for row in one.rows]
    assert places == sorted(set(places))
    assert rows.some(None, 0) is rows
    assert rows.some(10_000, 0) is rows
