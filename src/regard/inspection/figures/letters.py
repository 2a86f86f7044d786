"""Words of any script in a figure: what may stand there, how wide it gets, and where it is cut."""

import re
from collections.abc import Sequence
from unicodedata import category

from rich.cells import cell_len, set_cell_size

LETTER = 0.6
"Width of a Latin letter of a font of one width, in sizes of the font."
LONGEST = 24
"Letters of a word that are drawn; the rest is under the pointer."


def clean(word: str) -> str:
    """Without what a terminal would obey or XML forbid."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", word)


def cut_cells(word: str, width: int) -> str:
    """At most so wide; letters of many scripts are two cells wide, and some none."""
    return word if cell_len(word) <= width else f"{set_cell_size(word, width - 1).rstrip()}…"


def fit(word: str, width: int) -> str:
    """Exactly so wide."""
    return set_cell_size(cut_cells(clean(word), width), width)


def short(word: str) -> str:
    return cut_cells(clean(word), LONGEST)


def width_of(text: str, size: float) -> float:
    """How wide a text may get; only Latin script and its neighbours have fonts of one width."""
    return LETTER * size * sum(map(_cells, text))


def widest(words: Sequence[str], size: float) -> float:
    return max((width_of(short(word), size) for word in words), default=0.0)


def _cells(letter: str) -> float:
    if letter >= "\U0001f000":
        return 2.4  # emoji
    if "\u0900" <= letter < "\u2000" and category(letter) not in ("Mn", "Cf"):
        return 1.7  # scripts of South Asia and around, with signs that stand beside their letter
    return cell_len(letter)
