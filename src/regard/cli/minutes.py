"""Minutes as an option: more than none, and not without end."""

import math
from typing import Any

import click

WEEK = 7 * 24 * 60.0


class Minutes(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):  # a range lets it through: it is neither below nor above anything
            self.fail(f"{value!r} is not a number", param, ctx)
        return found


MINUTES = Minutes(0.0, WEEK, min_open=True)
