"""Bars: one a name, to the right above zero and to the left below."""

from collections.abc import Sequence

from regard.inspection.figures.drawing import Drawing, Item, Line, Rect, Text
from regard.inspection.figures.heat import MARGIN, SIZE
from regard.inspection.figures.letters import clean, short, widest

STEP, LENGTH = 20.0, 260.0


def bars(names: Sequence[str], values: Sequence[float], *, title: str, text: str = "") -> Drawing:
    largest = max(map(abs, values), default=0.0) or 1.0
    is_signed = any(value < 0 for value in values)
    zero = 2 * MARGIN + widest(names, SIZE) + (LENGTH / 2 if is_signed else 0)
    unit, top = (LENGTH / 2 if is_signed else LENGTH) / largest, 3 * MARGIN
    items: list[Item] = [Text(MARGIN, MARGIN + SIZE * 0.5, title, bold=True)]
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y = top + STEP * i
        items.append(Text(2 * MARGIN + widest(names, SIZE) - 6, y + 14, short(name), SIZE, "end", title=name))
        start, ink = (zero + unit * value, "minus") if value < 0 else (zero, "mark")
        note = f"{name}: {value:.4f}"
        items.append(Rect(start, y + 3, unit * abs(value), STEP - 6, ink, 0.85, note))  # type: ignore[arg-type]
        items.append(Text(zero + unit * max(value, 0) + 5, y + 14, f"{value:.3f}", 11.0, ink="soft"))
    height = top + STEP * len(names) + MARGIN
    items.append(Line(zero, top, zero, height - MARGIN, "grid"))
    width = max(zero + unit * largest + 64, 2 * MARGIN + len(title) * 7.6)
    said = ", ".join(f"{clean(name)} {value:.3f}" for name, value in zip(names[:20], values[:20], strict=True))
    return Drawing(width, height, items, title, text or said)
