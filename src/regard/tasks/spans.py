"""The best spans of a text, each scored by where it starts and where it ends, over all windows at once.

A span starts and ends at tokens that show something, at the first and the last of those that share a character, so no
two of them are the same piece of text. Every span is a cell of one table, so nothing here loops over pairs of tokens.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from regard.data.windows import Window, offsets_of

Table = NDArray[np.float64]


class Edges(NamedTuple):
    """Of the text's N tokens, without the white space around them: (N) each."""

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    may_start: NDArray[np.bool_]
    may_end: NDArray[np.bool_]


def edges_of(text: str, windows: Sequence[Window]) -> Edges:
    found = [_trimmed(text, start, end) for start, end in offsets_of(windows)]
    starts, ends = np.array(found, dtype=np.intp).reshape(-1, 2).T
    shown = starts < ends
    before = np.maximum.accumulate(np.where(shown, starts, -1))
    behind = np.minimum.accumulate(np.where(shown, ends, len(text) + 1)[::-1])[::-1]
    may_start = shown & (np.append(-1, before[:-1])[: len(starts)] < starts)
    may_end = shown & (ends < np.append(behind[1:], len(text) + 1)[: len(ends)])
    return Edges(starts, ends, may_start, may_end)


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
    return table


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
