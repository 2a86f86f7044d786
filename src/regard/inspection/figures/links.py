"""Lines between two columns of words: who looks at whom, the stronger the darker (Vig 2019 made it popular)."""

from collections.abc import Sequence

from torch import Tensor

from regard.inspection.figures.drawing import Drawing, Item, Line, Text
from regard.inspection.figures.heat import MARGIN, SIZE, described
from regard.inspection.figures.letters import short, widest

STEP, BETWEEN = 20.0, 160.0
LEAST = 0.02
"A smaller weight is not drawn."


def links(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str], *, title: str, only: int | None = None
) -> Drawing:
    """All rows of `weights` (T, S), or the lines of one query."""
    left = MARGIN + widest(queries, SIZE)
    right, top = left + BETWEEN, 3 * MARGIN
    items: list[Item] = [Text(MARGIN, MARGIN + SIZE * 0.5, title, bold=True)]
    for i, row in enumerate(weights.tolist()):
        if only in (None, i):
            for j, weight in enumerate(row):
                if weight >= LEAST:
                    note = f"{queries[i]} → {keys[j]}: {weight:.4f}"
                    ends = left + 6, top + STEP * (i + 0.3), right - 6, top + STEP * (j + 0.3)
                    items.append(Line(*ends, strength=min(1.0, 0.15 + weight), width=0.5 + 3.5 * weight, title=note))
    for i, word in enumerate(queries):
        faded = only not in (None, i)
        items.append(
            Text(left, top + STEP * (i + 0.5), short(word), SIZE, "end", "soft" if faded else "ink", not faded)
        )
    best = -1 if only is None else int(weights[only].argmax())
    items += [Text(right, top + STEP * (j + 0.5), short(word), SIZE, bold=j == best) for j, word in enumerate(keys)]
    width = max(right + widest(keys, SIZE), MARGIN + len(title) * 7.6) + MARGIN
    rows = weights if only is None else weights[only : only + 1]
    names = queries if only is None else queries[only : only + 1]
    height = top + STEP * max(len(queries), len(keys)) + MARGIN
    return Drawing(width, height, items, title, described(rows, names, keys))
