"""The lecture's exercise: attention by hand, for three words and d = 3, with and without the solution.

Three embeddings and three weight matrices of small whole numbers. The solution is computed by the same `readable` that
explains real models. Scores are divided by the square root of d, as in the paper; the lecture's sheet says 8, which is
the square root of the paper's 64, and its note says 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.inspection.capture import digits
from regard.inspection.figures.drawing import Drawing, below
from regard.inspection.figures.shown import Shown
from regard.inspection.figures.table import table
from regard.layers.attention import readable
from regard.layers.mask import Mask

WORDS = ("Action", "gets", "results")
LEAST, MOST = 0.03, 0.85
HEADER = ("Word", "q", "k", "v", "score", "score / √3", "softmax", "softmax · v", "sum")


@dataclass(frozen=True, eq=False)
class Exercise(Shown):
    words: tuple[str, ...]
    x: Tensor  # (3, 3) embeddings, a row a word; so are the others
    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    solved: bool = True

    @property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.x @ self.w_q, self.x @ self.w_k, self.x @ self.w_v

    @property
    def scale(self) -> float:
        return self.x.size(1) ** -0.5

    def answer(self) -> tuple[Tensor, Tensor]:
        """Outputs (T, d) and weights (T, T)."""
        q, k, v = (each[None, None] for each in self.qkv)
        out, weights = readable(q, k, v, Mask(), scale=self.scale)
        return out[0, 0], weights[0, 0]

    def sheet(self, query: int) -> list[list[str]]:
        """The table of one query; to be filled in, unless it is solved."""
        (q, k, v), (out, weights) = self.qkv, self.answer()
        scores = q @ k.T
        rows = []
        for i, word in enumerate(self.words):
            mine = i == query
            cells = [_vector(q[i]) if mine else "", _vector(k[i]), _vector(v[i]), f"{scores[query, i]:g}"]
            cells += [f"{scores[query, i] * self.scale:.3f}", f"{weights[query, i]:.3f}"]
            cells += [_vector(weights[query, i] * v[i]), _vector(out[query]) if mine else ""]
            rows.append([word, *(cells if self.solved else [""] * len(cells))])
        return rows

    def markdown(self) -> str:
        parts = [
            "# Self-attention by hand",
            f"Three words, “{' '.join(self.words)}”, each with a vector of {self.x.size(1)} numbers:",
            _matrix("X", self.x, self.words),
            "Three weight matrices, with q = x W_q, k = x W_k, v = x W_v:",
            *(_matrix(name, each) for name, each in (("W_q", self.w_q), ("W_k", self.w_k), ("W_v", self.w_v))),
            "For each word as the query: multiply its q with every k, divide by √3, take the softmax, multiply the "
            "weights with the v, and add.",
        ]
        for query, word in enumerate(self.words):
            rows = [list(HEADER), ["---"] * len(HEADER), *self.sheet(query)]
            lines = "\n".join("| " + " | ".join(row) + " |" for row in rows)
            parts.append(f"## Query: {word}\n\n{lines}")
        return "\n\n".join(parts) + "\n"

    def drawing(self) -> Drawing:
        tables = [table(HEADER, self.sheet(i), title=f"Query: {word}") for i, word in enumerate(self.words)]
        given = {"x": self.x, "W_q": self.w_q, "W_k": self.w_k, "W_v": self.w_v}
        rows = [[name, *map(_vector, values)] for name, values in given.items()]
        first = table(["", "row 1", "row 2", "row 3"], rows, title="Self-attention by hand: " + " ".join(self.words))
        return below([first, *tables], "Self-attention by hand")

    def table(self) -> list[Sequence[object]]:
        rows = [(word, row) for i, word in enumerate(self.words) for row in self.sheet(i)]
        return [["query", *HEADER], *([word, *row] for word, row in rows)]

    def numbers(self) -> NDArray[np.float32]:
        return self.answer()[1].numpy()

    def to_dict(self) -> dict[str, Any]:
        given = {"x": self.x, "w_q": self.w_q, "w_k": self.w_k, "w_v": self.w_v}
        found: dict[str, Any] = {"type": "exercise", "words": list(self.words)}
        found |= {name: digits(values) for name, values in given.items()}
        if self.solved:
            out, weights = self.answer()
            found |= {"weights": digits(weights), "out": digits(out)}
        return found


def exercise(*, solved: bool, seed: int = 0) -> Exercise:
    """Another seed, other numbers: an exam has more than one row of seats. Drawn until it is worth the work."""
    draw = torch.Generator().manual_seed(seed)
    while True:
        x = torch.randint(0, 3, (3, 3), generator=draw).float()
        w_q, w_k, w_v = torch.randint(-1, 2, (3, 3, 3), generator=draw).float()
        found = Exercise(WORDS, x, w_q, w_k, w_v, solved)
        if _is_worthwhile(found):
            return found


def _is_worthwhile(found: Exercise) -> bool:
    """No word takes nearly all or nothing, no two words are alike, and nothing is all zero."""
    weights = found.answer()[1]
    spread = weights.sort(-1).values.diff(dim=-1)  # between one weight of a row and the next
    alike = any(len(each.unique(dim=0)) < 3 or not bool(each.any(-1).all()) for each in found.qkv)
    return not alike and bool(weights.min() > LEAST and weights.max() < MOST and spread.min() > LEAST)


def _vector(values: Tensor) -> str:
    return (
        "(" + ", ".join(f"{value:.4g}" if value == round(value) else f"{value:.3f}" for value in values.tolist()) + ")"
    )


def _matrix(name: str, values: Tensor, words: Sequence[str] = ()) -> str:
    rows = [" ".join(f"{value:3g}" for value in row) for row in values.tolist()]
    marks = [f"   {word}" for word in words] or [""] * len(rows)
    starts = [f"{name:>4} = ", *[" " * 7] * (len(rows) - 1)]
    return "```\n" + "\n".join(f"{a}[{b} ]{c}" for a, b, c in zip(starts, rows, marks, strict=True)) + "\n```"
