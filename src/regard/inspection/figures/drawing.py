"""What a figure is made of: rectangles, lines, words and pixels, in inks that light and dark pages fill differently."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ink = Literal["paper", "ink", "soft", "grid", "mark", "minus"]

COLOURS: dict[Ink, tuple[str, str]] = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#24292f", "#e6edf3"),
    "soft": ("#57606a", "#9ea7b3"),
    "grid": ("#8c959f", "#6e7681"),
    "mark": ("#2f6fde", "#6aa5ff"),
    "minus": ("#b35900", "#f0883e"),
}
"On a light and on a dark page. Blue and orange are told apart by nearly every eye."


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    ink: Ink = "mark"
    strength: float = 1.0
    "From 0, the paper, to 1."
    title: str = ""
    "Shown under the pointer and read aloud."
    edge: Ink | None = None


@dataclass(frozen=True)
class Line:
    x: float
    y: float
    to_x: float
    to_y: float
    ink: Ink = "mark"
    strength: float = 1.0
    width: float = 1.0
    title: str = ""


@dataclass(frozen=True)
class Text:
    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: Literal["start", "middle", "end"] = "start"
    ink: Ink = "ink"
    bold: bool = False
    upwards: bool = False
    "Written from below to above."
    title: str = ""


@dataclass(frozen=True, eq=False)
class Pixels:
    """A large matrix as one picture: above zero in `mark`, below it in `minus`."""

    x: float
    y: float
    width: float
    height: float
    values: NDArray[np.float32]
    "From -1 to 1."


Item = Rect | Line | Text | Pixels


@dataclass(frozen=True, eq=False)
class Drawing:
    width: float
    height: float
    items: Sequence[Item]
    title: str
    "What is shown, in one line."
    text: str = ""
    "What is to be seen in it, for whoever cannot."


def below(drawings: Sequence[Drawing], title: str) -> Drawing:
    """Several as one, each under the one before."""
    items: list[Item] = []
    top = 0.0
    for each in drawings:
        items += list(_moved(each.items, top))
        top += each.height
    text = " ".join(each.text for each in drawings if each.text)
    return Drawing(max(each.width for each in drawings), top, items, title, text)


def _moved(items: Sequence[Item], down: float) -> Iterator[Item]:
    for item in items:
        yield (
            replace(item, y=item.y + down, to_y=item.to_y + down)
            if isinstance(item, Line)
            else replace(item, y=item.y + down)
        )
