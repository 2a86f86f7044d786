"""A loss is a sum and a count. Only the training step divides, by the targets of the whole step.

A mean of means would weigh a word in a short batch more than one in a long batch; a sum over a count does not, so
32 sentences at once, 4 x 8 of them, and 2 machines x 16 give the same gradient.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

IGNORED = -100


@dataclass(frozen=True)
class Loss:
    total: Tensor
    "Summed over the targets, with the graph of its gradient."
    count: int
    "Targets it is summed over."


def cross_entropy(logits: Tensor, targets: Tensor, valid: Tensor | None, label_smoothing: float) -> Tensor:
    """Summed over real targets: logits (B, T, V), targets (B, T), valid (B, T) True for real ones.

    With smoothing, a share of the probability is spread evenly over the vocabulary (Szegedy et al. 2016).
    """
    if valid is not None:  # ignored, not cut out: padding is rare, and a copy of the logits is not cheap
        targets = targets.masked_fill(~valid, IGNORED)
    return functional.cross_entropy(
        logits.flatten(0, -2).float(),
        targets.flatten(),
        ignore_index=IGNORED,
        label_smoothing=label_smoothing,
        reduction="sum",
    )
