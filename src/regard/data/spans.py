"""The best spans of a text, each scored by where it starts and where it ends, over all windows at once.

A span starts and ends at tokens that show something, at the first and the last of those that share a character, so no
two of them are the same piece of text. Words stay whole, unless a text has none that is short enough. Every span is a
cell of one table, so nothing here loops over pairs of tokens.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from regard.data.windows import Window, offsets_of

Table = NDArray[np.float64]
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese."
JOINER = 0x200D
"Of several signs it makes one, as of a family of emoji."


class Edges(NamedTuple):
    """Of the text's N tokens, without the white space around them: (N) each."""

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    may_start: NDArray[np.bool_]
    may_end: NDArray[np.bool_]
    starts_word: NDArray[np.bool_]
    ends_word: NDArray[np.bool_]
    "Whether no word is cut before its first letter, or behind its last one."


def edges_of(text: str, windows: Sequence[Window]) -> Edges:
    letters = Letters(text)
    found = [_trimmed(text, start, end) for start, end in offsets_of(windows)]
    starts, ends = np.array(found, dtype=np.intp).reshape(-1, 2).T
    shown = starts < ends
    ends = np.where(shown, letters.whole[ends], ends)
    before = np.maximum.accumulate(np.where(shown, starts, -1))
    behind = np.minimum.accumulate(np.where(shown, ends, len(text) + 1)[::-1])[::-1]
    may_start = shown & (np.append(-1, before[:-1])[: len(starts)] < starts)
    may_end = shown & (ends < np.append(behind[1:], len(text) + 1)[: len(ends)])
    return Edges(starts, ends, may_start, may_end, letters.between[starts], letters.between[ends])


class Letters:
    """Where a text may be cut, before each of its characters and at its end: (len(text) + 1) each."""

    def __init__(self, text: str) -> None:
        codes = np.frombuffer(f"{text} ".encode("utf-32-le", "surrogatepass"), np.uint32)
        kinds, each = np.unique(codes, return_inverse=True)
        is_mark = np.array([unicodedata.category(chr(code))[0] == "M" or code == JOINER for code in kinds])[each]
        is_letter = np.array([chr(code).isalnum() and not UNSPACED.match(chr(code)) for code in kinds])[each]
        places = np.arange(len(codes))
        stands_on = np.maximum.accumulate(np.where(is_mark, 0, places))
        self.between = ~(is_mark | (is_letter & np.append(False, is_letter[stands_on][:-1])))
        "Whether words stay whole."
        self.between[0] = True
        self.whole = np.minimum.accumulate(np.where(is_mark, len(text), places)[::-1])[::-1]
        "The next place that leaves a letter its accents, which a vocabulary may have thrown away."


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return end - len(piece.lstrip()), start + len(piece.rstrip())


def span_table(windows: Sequence[Window], scores: Sequence[NDArray[np.float32]], edges: Edges, longest: int) -> Table:
    """(N, L): in row i and column d the score of the span from token i to token i + d, -inf where it is none.

    `scores` (T, 2) of each window are those of a start and of an end at each of its ids. A span counts where a window
    holds it whole, and as the window that likes it best says.
    """
    n_tokens = len(edges.starts)
    longest = min(longest, max(n_tokens, 1))
    table = np.full((n_tokens, longest), -np.inf)
    for window, found in zip(windows, scores, strict=True):
        start, end = found[window.text_ids].astype(np.float64).T
        rows = slice(window.first, window.first + len(start))
        table[rows] = np.maximum(table[rows], start[:, None] + _ahead(end, longest, -np.inf))
    table[~(edges.may_start[:, None] & _ahead(edges.may_end, longest, False))] = -np.inf
    words = np.where(edges.starts_word[:, None] & _ahead(edges.ends_word, longest, False), table, -np.inf)
    return words if np.isfinite(words).any() else table


def _ahead(row: NDArray[Any], width: int, beyond: float) -> NDArray[Any]:
    """(N) -> (N, width): each with those behind it."""
    if not len(row):
        return np.empty((0, width), row.dtype)
    return sliding_window_view(np.append(row, np.full(width - 1, beyond, row.dtype)), width)


def best_cells(table: Table, count: int) -> list[tuple[int, int]]:
    """Rows and columns of the largest numbers, none of them -inf; best first, of equals the earlier and the shorter."""
    flat = table.ravel()
    count = min(count, int(np.isfinite(flat).sum()))
    if count == 0:
        return []
    least = np.partition(flat, len(flat) - count)[len(flat) - count]
    among = np.flatnonzero(flat >= least)
    ordered = among[np.argsort(-flat[among], kind="stable")][:count]
    return [(int(cell) // table.shape[1], int(cell) % table.shape[1]) for cell in ordered]


def log_total(table: Table, more: Sequence[float] = ()) -> float:
    """The logarithm of the sum of exponentials over all cells and `more`: what makes scores probabilities."""
    everything = np.append(table.ravel(), more)
    top = float(everything.max())
    return top + float(np.log(np.exp(everything - top).sum()))
