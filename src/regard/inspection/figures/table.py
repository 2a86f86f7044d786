"""A table of words and numbers, with a bar behind each number of the columns that have one."""

from collections.abc import Sequence

from regard.inspection.figures.drawing import Drawing, Item, Line, Rect, Text
from regard.inspection.figures.heat import MARGIN, SIZE
from regard.inspection.figures.letters import LETTER, clean, width_of

STEP, PAD = 19.0, 14.0


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str, shares: Sequence[float] = (), text: str = ""
) -> Drawing:
    """Numbers stand to the right. `shares`, from 0 to 1, are bars behind the last column, one a row."""
    cells = [[clean(cell) for cell in row] for row in [header, *rows]]
    widths = [max(width_of(row[i], SIZE) for row in cells) + PAD for i in range(len(header))]
    edges = [MARGIN + sum(widths[:i]) for i in range(len(header) + 1)]
    top = 3 * MARGIN
    items: list[Item] = [Text(MARGIN, MARGIN + SIZE * 0.5, title, bold=True)]
    for i, share in enumerate(shares):
        place = edges[-2], top + STEP * (i + 1) + 3, (edges[-1] - edges[-2] - PAD / 2) * share, STEP - 4
        items.append(Rect(*place, strength=0.35, title=f"{rows[i][0]}: {share:.4f}"))
    for i, row in enumerate(cells):
        y = top + STEP * (i + 0.75)
        for j, cell in enumerate(row):
            right = all(is_number(each[j]) for each in cells[1:])
            x = edges[j + 1] - PAD if right else edges[j]
            items.append(Text(x, y, cell, SIZE, "end" if right else "start", "ink" if i else "soft", not i))
    items.append(Line(MARGIN, top + STEP, edges[-1] - PAD / 2, top + STEP, "grid"))
    width = max(edges[-1], 2 * MARGIN + len(title) * SIZE * LETTER * 1.05)
    return Drawing(width + MARGIN, top + STEP * len(cells) + MARGIN, items, title, text)


def is_number(cell: str) -> bool:
    return cell.lstrip("+-−").replace(".", "", 1).isdigit() or not cell
