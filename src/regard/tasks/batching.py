"""Many texts: read in chunks, worked on in batches of like length, and what came of each looked at."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import UserError

T = TypeVar("T")


def chunks(items: Iterable[T], first: int, last: int) -> Iterator[list[T]]:
    """Few at first, for those who wait at a pipe; then twice as many each time, up to a limit."""
    iterator, size = iter(items), first
    while chunk := list(islice(iterator, size)):
        yield chunk
        size = min(2 * size, last)


def batches(lengths: Sequence[float], budget: int) -> Iterator[list[int]]:
    """Row numbers in groups of like length, each with at most `budget` tokens, padding counted; longer ones alone."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """The rows side by side (B, T), each from the left, and which ids are real (B, T), unless all are."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    valid = torch.arange(longest, device=device) < lengths[:, None]
    return ids, None if bool(valid.all()) else valid


def check_finite(found: NDArray[np.float32], first: int) -> None:
    """A row of numbers for each text; the first text is the one of this number."""
    if (broken := ~np.isfinite(found).all(axis=1)).any():
        raise UserError(
            f"input line {first + int(broken.argmax())}: the model's weights give no number (NaN or infinity)",
            "the weights are damaged: get the model again; `regard convert --check-finite` names the tensors",
        )
