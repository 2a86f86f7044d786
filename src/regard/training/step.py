"""One optimizer step: pure arithmetic, exact for ragged batches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.objectives.loss import Loss
from regard.training.ranks import ALONE, Ranks


@dataclass(frozen=True)
class StepResult:
    loss: float
    "Mean over the targets of the step."
    norm: float
    "Length of the gradient before clipping."
    n_targets: int
    bad: str | None = None
    "Where the first number that is none was found; such a step leaves the weights as they were."


def seed_of(*parts: int) -> int:
    """One 63-bit seed from several numbers: the randomness of a step is a function of (seed, step, part)."""
    mixed = 0x9E3779B97F4A7C15
    for part in parts:
        mixed = ((mixed ^ (part & 0xFFFFFFFFFFFFFFFF)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 31
    return mixed >> 1


def step(
    model: nn.Module,
    batches: Sequence[Any],
    objective: Callable[[Any, Any], Loss],
    optimizer: torch.optim.Optimizer,
    *,
    clip: float,
    seeds: Sequence[int],
    autocast: torch.dtype | None = None,
    ranks: Ranks = ALONE,
) -> StepResult:
    """Gradients of all micro-batches of all ranks, divided by all their targets; then clip and move."""
    count = int(ranks.sum(sum(batch.n_targets for batch in batches))[0])  # known before any forward pass
    kind = next(model.parameters()).device.type
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for number, (batch, seed) in enumerate(zip(batches, seeds, strict=True), 1):
        torch.manual_seed(seed)
        with ranks.part(model, last=number == len(batches)):
            with torch.autocast(kind, dtype=autocast, enabled=autocast is not None):
                loss = objective(model, batch).total / max(count, 1)
            loss.backward()
        total += float(loss.detach())
    gradients = [ranks.local(parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
    norm = length_of(gradients, ranks)
    total = ranks.sum(total)[0]
    if not (math.isfinite(total) and math.isfinite(norm)):  # sums over all ranks: they judge alike
        return StepResult(total, norm, count, bad=first_bad(model, ranks))
    if norm > clip:
        torch._foreach_mul_(gradients, clip / (norm + 1e-6))
    optimizer.step()
    return StepResult(total, norm, count)


def length_of(gradients: Sequence[Tensor], ranks: Ranks = ALONE) -> float:
    """Of all gradients as one vector: row by row, then over the rows in float64.

    FSDP cuts between rows, so any number of ranks gets the very number that one process gets; Adam would make a
    difference in the last bit of the factor that clips into a visible one wherever a gradient is nearly zero.
    """
    matrices = [gradient.flatten(1) if gradient.dim() > 1 else gradient[:, None] for gradient in gradients]
    rows = [torch.linalg.vector_norm(matrix, dim=1) for matrix in matrices]
    own = float(torch.linalg.vector_norm(torch.cat(rows).double()))
    return math.sqrt(ranks.over_shares(own**2))


def first_bad(model: nn.Module, ranks: Ranks = ALONE) -> str:
    """The first parameter whose gradient is not a number: near it, training broke."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(torch.isfinite(ranks.full(parameter.grad)).all()):
            return name.removeprefix("module.")  # where DDP keeps the model
    return "the loss itself"
