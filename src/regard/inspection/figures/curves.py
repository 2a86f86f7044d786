"""Curves over one axis, a colour each, named where they end."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from regard.inspection.figures.drawing import Drawing, Ink, Item, Line, Text
from regard.inspection.figures.heat import MARGIN, SIZE

WIDTH, HEIGHT = 420.0, 150.0
INKS: tuple[Ink, ...] = ("mark", "minus", "soft", "ink")


def curves(xs: Sequence[float], series: Mapping[str, Sequence[float]], *, title: str, axis: str) -> Drawing:
    values = [value for each in series.values() for value in each]
    low, high = min(*values, 0.0), max(*values, 0.0)
    span, reach = (high - low) or 1.0, (xs[-1] - xs[0]) or 1.0
    left, top = 56.0, 3 * MARGIN
    items: list[Item] = [Text(MARGIN, MARGIN + SIZE * 0.5, title, bold=True)]
    for level in sorted({low, 0.0, high}):
        y = top + HEIGHT * (high - level) / span
        items += [Line(left, y, left + WIDTH, y, "grid", 0.6, 0.5), Text(left - 6, y + 4, f"{level:.3g}", 10.0, "end")]
    for i, (name, numbers) in enumerate(series.items()):
        dots = [
            (left + WIDTH * (x - xs[0]) / reach, top + HEIGHT * (high - value) / span)
            for x, value in zip(xs, numbers, strict=True)
        ]
        items += [Line(*a, *b, INKS[i % len(INKS)], width=1.5) for a, b in pairwise(dots)]
        items.append(Text(left + WIDTH + 6, dots[-1][1] + 4, name, 11.0, ink=INKS[i % len(INKS)]))
    bottom = top + HEIGHT + 16
    items += [
        Text(left, bottom, f"{xs[0]:g}", 10.0, "middle"),
        Text(left + WIDTH, bottom, f"{xs[-1]:g}", 10.0, "middle"),
    ]
    items.append(Text(left + WIDTH / 2, bottom, axis, 11.0, "middle", "soft"))
    width = left + WIDTH + 12 + 8 * max(map(len, series))
    said = "; ".join(f"{name}: from {each[0]:.3f} to {each[-1]:.3f}" for name, each in series.items())
    return Drawing(max(width, 2 * MARGIN + len(title) * 7.6), bottom + MARGIN, items, title, said)
