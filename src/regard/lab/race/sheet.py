"""The answer to one question: a table, what is to be seen in it, and its curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.inspection.figures.curves import curves
from regard.inspection.figures.drawing import Drawing
from regard.inspection.figures.shown import Shown
from regard.inspection.figures.table import table

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Sheet(Shown):
    name: str
    "Of its files, and its key in JSON."
    title: str
    rows: Sequence[Row]
    says: Sequence[str] = ()
    "What is to be seen, a sentence each."
    timed: frozenset[str] = frozenset()
    "Columns that are clock times or follow from them: another run has others."
    xs: Sequence[float] = ()
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    axis: str = ""
    logarithmic: bool = False

    @property
    def header(self) -> list[str]:
        return list(dict.fromkeys(key for row in self.rows for key in row))

    def cells(self) -> list[list[str]]:
        return [[shown(row.get(key)) for key in self.header] for row in self.rows]

    def text(self) -> str:
        rows = [self.header, *self.cells()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.header))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        return "\n".join(
            [self.title, "", *(f"  {line}".rstrip() for line in lines), *([""] if self.says else []), *self.says]
        )

    def drawing(self) -> Drawing:
        said = " ".join(self.says)
        if self.series:
            drawn = curves(self.xs, self.series, title=self.title, axis=self.axis, logarithmic=self.logarithmic)
            return Drawing(drawn.width, drawn.height, drawn.items, drawn.title, f"{said} {drawn.text}")
        return table(self.header, self.cells(), title=self.title, text=said)

    def table(self) -> list[Sequence[object]]:
        return [self.header, *([row.get(key, "") for key in self.header] for row in self.rows)]

    def numbers(self) -> NDArray[np.float32]:
        return np.array([list(each) for each in self.series.values()], dtype=np.float32)

    def to_dict(self) -> dict[str, Any]:
        curves_: dict[str, Any] = {"axis": self.axis, "logarithmic": self.logarithmic, "xs": list(self.xs)}
        curves_["series"] = {key: list(y) for key, y in self.series.items()}
        whole = {"title": self.title, "columns": self.header, "rows": list(self.rows)}  # JavaScript sorts numbers first
        whole |= {"says": list(self.says), "timed": sorted(self.timed)}
        return whole | ({"curves": curves_} if self.series else {})


def shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
