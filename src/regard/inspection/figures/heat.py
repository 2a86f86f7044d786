"""A heat map: one square a number, darker where it is larger, blue above zero and orange below."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from regard.inspection.figures.drawing import Drawing, Item, Pixels, Rect, Text
from regard.inspection.figures.letters import clean, short, widest

CELL, SIZE, GAP, MARGIN = 24.0, 12.0, 6.0, 12.0
WIDEST = 720.0
"What many columns shrink to."
MOST = 2_500
"Squares that are drawn one by one; more become one picture."


def heat_map(
    values: Tensor, rows: Sequence[str], columns: Sequence[str], *, title: str, full: float = 1.0, text: str = ""
) -> Drawing:
    """`full` is the number that is drawn in full strength. The largest of each row has an edge."""
    height, width = values.shape
    across, down = (min(CELL, max(1.0, WIDEST / max(n, 1))) for n in (width, height))
    if max(height, width) <= WIDEST / CELL:
        across = down = CELL
    left, top = widest(rows, SIZE) + GAP + MARGIN, widest(columns, SIZE) + GAP + 3 * MARGIN
    items: list[Item] = [Text(MARGIN, MARGIN + SIZE * 0.5, title, bold=True)]
    items += _labels(rows, columns, (left, top), (across, down))
    if values.numel() > MOST:
        scaled = (values.float() / (full or 1.0)).numpy()
        items.append(Pixels(left, top, across * width, down * height, scaled.astype(np.float32)))
    else:
        items += _squares(values, rows, columns, (left, top), (across, down), full)
    bottom = top + down * height + GAP
    items += _legend(left, bottom, full, is_signed=bool((values < 0).any()))
    needed = max(left + across * width, left + 260, 2 * MARGIN + len(title) * 7.6) + MARGIN
    return Drawing(needed, bottom + 2 * CELL, items, title, text or described(values, rows, columns))


def _labels(
    rows: Sequence[str], columns: Sequence[str], corner: tuple[float, float], cell: tuple[float, float]
) -> Iterator[Text]:
    """As many as have room."""
    (left, top), (across, down) = corner, cell
    for i in range(0, len(columns), _step(across)):
        yield Text(
            left + across * (i + 0.5) + 4, top - GAP, short(columns[i]), SIZE, upwards=True, title=_rest(columns[i])
        )
    for i in range(0, len(rows), _step(down)):
        yield Text(left - GAP, top + down * (i + 0.5) + 4, short(rows[i]), SIZE, "end", title=_rest(rows[i]))


def _step(cell: float) -> int:
    return max(1, round(14 / cell))


def _rest(word: str) -> str:
    """The whole of a word that was cut, for the pointer."""
    return word if short(word) != clean(word) else ""


def _squares(
    values: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    corner: tuple[float, float],
    cell: tuple[float, float],
    full: float,
) -> Iterator[Rect]:
    (left, top), (across, down) = corner, cell
    for row, numbers in enumerate(values.tolist()):
        largest = max(range(len(numbers)), key=lambda i: abs(numbers[i]), default=-1)
        for column, number in enumerate(numbers):
            strength = min(1.0, abs(number) / (full or 1.0))
            yield Rect(
                left + across * column,
                top + down * row,
                across - 1,
                down - 1,
                "mark" if number >= 0 else "minus",
                strength,
                f"{rows[row]} → {columns[column]}: {number:.4f}",
                "ink" if column == largest and number else "grid",
            )


def _legend(left: float, top: float, full: float, *, is_signed: bool) -> Iterator[Item]:
    shares = (-1.0, -0.5, 0.0, 0.5, 1.0) if is_signed else (0.0, 0.25, 0.5, 0.75, 1.0)
    for i, share in enumerate(shares):
        x = left + 52 * i
        yield Rect(x, top + 6, 12, 12, "mark" if share >= 0 else "minus", abs(share), edge="grid")
        yield Text(x + 15, top + 16, f"{share * full:.3g}", 10.0, ink="soft")


def described(values: Tensor, rows: Sequence[str], columns: Sequence[str], most: int = 12) -> str:
    """In words: where each row has its largest number."""
    if not values.numel():
        return "nothing to show"
    largest = values.abs().argmax(-1).tolist()
    said = [f"{rows[i]} → {columns[at]} {values[i, at]:.2f}" for i, at in enumerate(largest[:most])]
    more = f"; and {len(rows) - most} rows more" if len(rows) > most else ""
    return "The largest of each row: " + ", ".join(map(clean, said)) + more
