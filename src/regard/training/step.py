"""One optimizer step: pure arithmetic, exact for ragged batches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.objectives.loss import Loss


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
) -> StepResult:
    """Gradients of all micro-batches, divided by all their targets; then clip and move."""
    count = sum(batch.n_targets for batch in batches)  # known before any forward pass
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for batch, seed in zip(batches, seeds, strict=True):
        torch.manual_seed(seed)
        with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
            loss = objective(model, batch).total / max(count, 1)
        loss.backward()
        total += float(loss.detach())
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), clip))
    if not (math.isfinite(total) and math.isfinite(norm)):
        return StepResult(total, norm, count, bad=first_bad(model))
    optimizer.step()
    return StepResult(total, norm, count)


def first_bad(model: nn.Module) -> str:
    """The first parameter whose gradient is not a number: near it, training broke."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            return name
    return "the loss itself"
