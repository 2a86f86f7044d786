"""Curves over one axis, a colour each, named where they end."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from regard.inspection.figures.drawing import Drawing, Ink, Item, Line, Text
from regard.inspection.figures.heat import MARGIN, SIZE

WIDTH, HEIGHT = 420.0, 150.0
INKS: tuple[Ink, ...] = ("mark", "minus", "soft", "ink")
APART = 12.0
"Between two names."
FAINT = 0.45
"A second round through the inks."


def curves(
    xs: Sequence[float], series: Mapping[str, Sequence[float]], *, title: str, axis: str, logarithmic: bool = False
) -> Drawing:
    """On `logarithmic` axes a power is a straight line. What is not finite, or not positive there, is a gap."""
    drawn = {name: _points(xs, ys, logarithmic=logarithmic) for name, ys in series.items()}
    values = [y for points in drawn.values() for _, y in points] or [0.0]
    low, high = (min(values), max(values)) if logarithmic else (min(*values, 0.0), max(*values, 0.0))
    start, end = (math.log10(x) if logarithmic else x for x in (xs[0], xs[-1]))
    span, reach = (high - low) or 1.0, (end - start) or 1.0
    left, top = 56.0, 3 * MARGIN
    items: list[Item] = [Text(MARGIN, MARGIN + SIZE * 0.5, title, bold=True)]
    for level in sorted({low, high} | ({0.0} if low <= 0.0 <= high else set())):
        y, value = top + HEIGHT * (high - level) / span, 10**level if logarithmic else level
        items += [Line(left, y, left + WIDTH, y, "grid", 0.6, 0.5), Text(left - 6, y + 4, f"{value:.3g}", 10.0, "end")]
    ends = {}
    for i, (name, points) in enumerate(drawn.items()):
        dots = [(left + WIDTH * (x - start) / reach, top + HEIGHT * (high - y) / span) for x, y in points]
        ink, strength = INKS[i % len(INKS)], 1.0 if i < len(INKS) else FAINT
        items += [Line(*a, *b, ink, strength, width=1.5) for a, b in pairwise(dots)]
        ends[name] = dots[-1][1] + 4 if dots else top
    bottom, names = top + HEIGHT + 16, _spread(ends)
    for i, name in enumerate(drawn):
        items.append(Text(left + WIDTH + 6, names[name], name, 11.0, ink=INKS[i % len(INKS)]))
    items += [
        Text(left, bottom, f"{xs[0]:g}", 10.0, "middle"),
        Text(left + WIDTH, bottom, f"{xs[-1]:g}", 10.0, "middle"),
    ]
    items.append(Text(left + WIDTH / 2, bottom, axis, 11.0, "middle", "soft"))
    width = left + WIDTH + 12 + 8 * max(map(len, series))
    said = "; ".join(f"{name}: from {each[0]:.3f} to {each[-1]:.3f}" for name, each in series.items())
    return Drawing(max(width, 2 * MARGIN + len(title) * 7.6), max(bottom, *names.values()) + MARGIN, items, title, said)


def _points(xs: Sequence[float], ys: Sequence[float], *, logarithmic: bool) -> list[tuple[float, float]]:
    if not logarithmic:
        return [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(y)]
    real = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(y) and x > 0 and y > 0]
    return [(math.log10(x), math.log10(y)) for x, y in real]


def _spread(ends: Mapping[str, float]) -> dict[str, float]:
    """Names that would lie on each other, each below the one before."""
    placed: dict[str, float] = {}
    for name, y in sorted(ends.items(), key=lambda pair: pair[1]):
        placed[name] = max(y, max(placed.values(), default=-math.inf) + APART)
    return placed
