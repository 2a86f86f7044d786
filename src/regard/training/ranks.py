"""Who else trains: the one seam between a run alone and a run on many machines.

A run asks its `Ranks` wherever it matters that there may be others: who computes which part of a step, what all have
counted together, whether somebody failed. Alone, every answer is at hand. The answers of processes that `torchrun`
has started are in together.py and distributed.py; nothing else in this folder knows of them.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.models.base import Model
from regard.training import checkpoint

T = TypeVar("T")


class Ranks:
    """One process: it is the first and the last, and always of its own opinion."""

    rank, size = 0, 1
    own: Exception | None = None
    "The failure that this rank speaks of itself: its own, or that the first is missing."

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)

    @property
    def is_first(self) -> bool:
        """Rank 0 alone prints, logs and publishes."""
        return self.rank == 0

    @property
    def is_first_here(self) -> bool:
        """The first on this machine."""
        return True

    # ---- who does what

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Every `size`-th: dealt like cards, so that all have as much to do."""
        return items[self.rank :: self.size]

    def merge(self, own: list[T]) -> list[T]:
        """All items of all ranks, in the order they had before they were shared."""
        return own

    def placed(self, batch: Any) -> Any:
        """The batch where the model is."""
        if self.device.type == "cpu":
            return batch
        moved = {name: value.to(self.device) for name, value in vars(batch).items() if isinstance(value, Tensor)}
        return replace(batch, **moved)

    # ---- agreeing

    def sum(self, *values: float) -> list[float]:
        return list(values)

    def any(self, *flags: bool) -> list[bool]:
        """What holds for at least one rank holds for all."""
        return list(flags)

    def every(self, what: str, action: Callable[[], T]) -> T:
        """Each rank acts for itself; if one of them fails, all raise. `action` may not talk to other ranks."""
        return action()

    def first(self, what: str, action: Callable[[], T], *, patient: bool = False) -> T:
        """Rank 0 acts, the others wait for its result, plain JSON, or its error; `patient` without a time-out."""
        return action()

    def compare(self, facts: dict[str, Any]) -> None:
        """All ranks must have the same; else whoever differs is named."""

    def watched(self, where: Callable[[], str]) -> AbstractContextManager[None]:
        """If another rank falls silent inside, the error names it and `where` this one was."""
        return nullcontext()

    # ---- the model

    def spread(self, model: Model) -> nn.Module:
        """What a step calls instead of the model; the optimizer is made after this."""
        return model

    def part(self, trained: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        """Around each part of a step; gradients are added up over the ranks after the last."""
        return nullcontext()

    def whole(self, model: Model, blank: Callable[[], Model]) -> Model:
        """The model with all its weights in one place, to look at and to save; `blank` builds one to fill."""
        return model

    def full(self, tensor: Tensor) -> Tensor:
        """All of a tensor, wherever its parts are."""
        return tensor

    def local(self, tensor: Tensor) -> Tensor:
        """The share of it that this rank holds."""
        return tensor

    def over_shares(self, value: float) -> float:
        """Added up over the ranks that hold shares of one thing, each counted once."""
        return value

    def row(self, table: Tensor, index: int) -> Tensor:
        """A view of that row, (1, D), or (0, D) where it stands on another rank."""
        return table[index : index + 1]

    # ---- checkpoints

    def save(
        self, folder: Path, step: int, model: Model, optimizer: torch.optim.Optimizer, meta: dict[str, Any]
    ) -> None:
        self.first("saving", lambda: str(checkpoint.save(folder, step, model, optimizer, meta)))

    def restore(self, path: Path, model: Model, optimizer: torch.optim.Optimizer) -> None:
        self.every("reading the checkpoint", lambda: checkpoint.restore(path, model, optimizer) and None)


ALONE = Ranks()
