"""The texts whose vectors point most nearly the same way: cosine, exact, a block at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from regard.data.vectors import Vectors
from regard.errors import UserError

Numbers = NDArray[np.int64]
BLOCK, QUERIES = 4096, 256
"Vectors that are read from a file at once, and queries that are compared with them at once."


class Hit(NamedTuple):
    score: float
    "The cosine: 1 for the same direction."
    number: int
    "Of the text, from 1."
    text: str


class Nearest:
    """Takes texts with their vectors in any number of portions and keeps the `top` nearest for each query."""

    def __init__(self, queries: Vectors, top: int) -> None:
        self._queries, self._top, self.n_seen = unit(queries), top, 0
        self._scores = np.zeros((len(queries), 0), dtype=np.float32)  # (queries, up to top), the nearest first
        self._numbers = np.zeros((len(queries), 0), dtype=np.int64)
        self._texts: dict[int, str] = {}

    def add(self, texts: Sequence[str], vectors: Vectors, *, unknown: bool = False) -> None:
        """A text of nothing is near to nothing, unless all of them are `unknown`."""
        empty = np.array([not unknown and not text.strip() for text in texts], dtype=bool)
        numbers, block = np.arange(self.n_seen, self.n_seen + len(vectors)) + 1, unit(vectors)
        parts = range(0, len(self._queries), QUERIES)
        merged = [self._merged(slice(start, start + QUERIES), numbers, block, empty) for start in parts]
        if merged:
            self._scores, self._numbers = (np.concatenate(each) for each in zip(*merged, strict=True))
        self._texts |= zip(numbers.tolist(), texts, strict=True)
        self._texts = {number: self._texts[number] for number in set(self._numbers.flatten().tolist())}
        self.n_seen += len(vectors)

    def _merged(
        self, some: slice, numbers: Numbers, block: Vectors, empty: NDArray[np.bool_]
    ) -> tuple[Vectors, Numbers]:
        near = np.where(empty, np.float32(-np.inf), self._queries[some] @ block.T)
        scores = np.concatenate([self._scores[some], near], axis=1)
        known = self._numbers[some]
        every = np.concatenate([known, np.broadcast_to(numbers, (len(known), len(numbers)))], axis=1)
        # Stable, and numbers only grow: of two that are equally near the earlier one comes first.
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self._top]
        return np.take_along_axis(scores, best, axis=1), np.take_along_axis(every, best, axis=1)

    def hits(self) -> Iterator[list[Hit]]:
        """For each query, the nearest first."""
        for scores, numbers in zip(self._scores.tolist(), self._numbers.tolist(), strict=True):
            found = zip(scores, numbers, strict=True)
            yield [Hit(score, number, self._texts[number]) for score, number in found if score > -np.inf]


def unit(vectors: Vectors) -> Vectors:
    """Of length one; a vector of zeros stays, and is near to nothing."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Vectors = (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return found


def read_vectors(path: Path, width: int) -> Iterator[Vectors]:
    """The rows of a .npy file in blocks; the file may be larger than memory."""
    try:
        array = open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise UserError(f"{path} is not a file of vectors: {error}", WRITE) from error
    if array.ndim != 2 or array.dtype.kind != "f":
        raise UserError(f"{path} does not hold one row of numbers for each text", WRITE)
    if array.shape[1] != width:
        hint = "search with the model that made them"
        raise UserError(f"{path} holds vectors of {array.shape[1]} numbers, the model makes {width}", hint)
    for start in range(0, len(array), BLOCK):
        block = np.asarray(array[start : start + BLOCK], dtype=np.float32)
        if (broken := ~np.isfinite(block).all(axis=1)).any():
            raise UserError(f"{path}: vector {start + int(broken.argmax()) + 1} is not made of numbers", WRITE)
        yield block


WRITE = "write one with `regard embed --file lines.txt --out vectors.npy`"
