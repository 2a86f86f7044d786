"""Who looked at whom, with names: the weights of an attention, as tokens or as words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.inspection.figures.drawing import Drawing
from regard.inspection.figures.heat import heat_map
from regard.inspection.figures.links import links
from regard.inspection.figures.shown import Shown


@dataclass(frozen=True, eq=False)
class Alignment(Shown):
    """Weights (T, S): each of the `target` looks at all of the `source`, which in self-attention are the same."""

    target: tuple[str, ...]
    source: tuple[str, ...]
    weights: Tensor
    title: str = "Where each word of the translation (down) looked in the source (across)"

    def grouped(self, rows: Sequence[int], columns: Sequence[int]) -> "Alignment":
        """Tokens of one word together; both lists say for each token the number of its word.

        What is attended to adds up; what attends is averaged. So each row still has the sum 1.
        """
        merged = torch.zeros(len(rows), columns[-1] + 1).index_add_(1, torch.tensor(columns), self.weights.float())
        averaged = torch.zeros(rows[-1] + 1, merged.size(1)).index_add_(0, torch.tensor(rows), merged)
        averaged /= torch.bincount(torch.tensor(rows))[:, None]
        return Alignment(_joined(self.target, rows), _joined(self.source, columns), averaged, self.title)

    def drawing(self) -> Drawing:
        return heat_map(self.weights, self.target, self.source, title=self.title)

    def links(self, only: int | None = None) -> Drawing:
        """The same as lines between two columns of words, of all rows or of one."""
        return links(self.weights, self.target, self.source, title=self.title, only=only)

    def table(self) -> list[Sequence[object]]:
        rows = zip(self.target, self.weights.tolist(), strict=True)
        return [["", *self.source], *([name, *numbers] for name, numbers in rows)]

    def numbers(self) -> NDArray[np.float32]:
        return self.weights.float().numpy()

    def to_dict(self) -> dict[str, Any]:
        rows = [[round(value, 6) for value in row] for row in self.weights.tolist()]
        return {"target": list(self.target), "source": list(self.source), "weights": rows}


def _joined(names: Sequence[str], groups: Sequence[int]) -> tuple[str, ...]:
    words = [""] * (groups[-1] + 1)
    for name, group in zip(names, groups, strict=True):
        words[group] += name
    return tuple(words)
