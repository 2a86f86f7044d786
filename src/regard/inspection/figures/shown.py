"""What every result of looking inside can do: be drawn, be written to a file, and show itself in a notebook."""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import USAGE, UserError
from regard.files import write_bytes
from regard.inspection.figures.drawing import Drawing
from regard.inspection.figures.page import figure, frame, html_table, page
from regard.inspection.figures.svg import svg

MOST_ROWS = 400
"Rows of a table on a page; the rest is in the CSV."


class Shown(ABC):
    @abstractmethod
    def drawing(self) -> Drawing: ...

    @abstractmethod
    def table(self) -> list[Sequence[object]]:
        """All numbers as rows under a header."""

    @abstractmethod
    def numbers(self) -> NDArray[np.float32]:
        """The main matrix or vector."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    def svg(self) -> str:
        return svg(self.drawing())

    def png(self) -> bytes:
        from regard.inspection.figures.png import png  # imports pillow, and only this needs it

        return png(self.drawing())

    def html(self) -> str:
        drawing, rows = self.drawing(), self.table()
        shown, more = rows[: MOST_ROWS + 1], max(0, len(rows) - MOST_ROWS - 1)
        caption = "the numbers" + (f" (the first {MOST_ROWS} of {len(rows) - 1} rows)" if more else "")
        return page(drawing.title, [figure(svg(drawing)), html_table(shown, caption)], text=drawing.text)

    def csv(self) -> str:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(self.table())
        return file.getvalue()

    def npy(self) -> bytes:
        file = io.BytesIO()
        np.save(file, self.numbers())
        return file.getvalue()

    def json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False) + "\n"

    def save(self, path: str | Path) -> None:
        """As the end of the name says: .svg .png .html .csv .npy .json; a file is written whole or not at all."""
        path = Path(path)
        check_suffix(path)
        data: str | bytes = getattr(self, path.suffix[1:].lower())()
        write_bytes(path, data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace"))

    def _repr_html_(self) -> str:
        return frame(self.html(), min(800, self.drawing().height + 260))


SUFFIXES = (".svg", ".png", ".html", ".csv", ".npy", ".json")


def check_suffix(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"{path}: a figure cannot be written so", f"end the name in {' '.join(SUFFIXES)}", exit_code=USAGE
        )
