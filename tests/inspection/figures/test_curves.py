"""Curves stand where their numbers are, on even and on logarithmic axes, and no name lies on another."""

import math
from itertools import pairwise

import pytest

from regard.inspection.figures.curves import APART, curves
from regard.inspection.figures.drawing import Line, Text


def test_a_power_is_a_straight_line_on_logarithmic_axes() -> None:
    xs = [1, 10, 100, 1000]
    drawn = curves(xs, {"square": [x**2 for x in xs]}, title="t", axis="n", logarithmic=True)
    lines = [item for item in drawn.items if isinstance(item, Line) and item.ink == "mark"]
    slopes = [(line.to_y - line.y) / (line.to_x - line.x) for line in lines]
    assert len(lines) == 3
    assert slopes == pytest.approx([slopes[0]] * 3)


def test_what_is_no_number_or_has_no_logarithm_is_left_out() -> None:
    series = {"a": [1.0, math.nan, 3.0], "b": [0.0, 2.0, 3.0]}
    drawn = curves([1, 2, 3], series, title="t", axis="n", logarithmic=True)
    assert sum(isinstance(item, Line) and item.ink in ("mark", "minus") for item in drawn.items) == 2
    assert all(math.isfinite(item.y) for item in drawn.items if isinstance(item, Line | Text))


def test_names_of_curves_that_end_together_stand_below_each_other() -> None:
    names = [f"n{i}" for i in range(6)]
    drawn = curves([0, 1], {name: [0.0, 1.0] for name in names}, title="t", axis="n")
    heights = sorted(item.y for item in drawn.items if isinstance(item, Text) and item.text in names)
    assert [b - a for a, b in pairwise(heights)] == pytest.approx([APART] * 5)
    assert heights[-1] < drawn.height
