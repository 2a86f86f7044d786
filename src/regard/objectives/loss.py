"""A loss is a sum and a count. Only the training step divides, by the targets of the whole step.

A mean of means would weigh a word in a short batch more than one in a long batch; a sum over a count does not, so
32 sentences at once, 4 x 8 of them, and 2 machines x 16 give the same gradient.

`cross_entropy` reads like the formula. `chunked_cross_entropy` is its twin for training: the logits of a step are its
largest tensor by far, so it takes them piece by piece, small enough for the processor's cache, and turns each piece
into its gradient on the spot.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.layers.head import Scores

CHUNK_NUMBERS = 2**21
"Logits of one piece: 8 MB."
MIN_ROWS = 64
"Fewer rows than this keep a matrix product waiting for memory."


@dataclass(frozen=True)
class Loss:
    total: Tensor
    "Summed over the targets, with the graph of its gradient."
    count: int
    "Targets it is summed over."


def word_loss(scores: Tensor | Scores, targets: Tensor, valid: Tensor | None, label_smoothing: float) -> Tensor:
    """The cross-entropy by whichever twin fits: pieces where a gradient is wanted, the formula elsewhere."""
    if isinstance(scores, Scores):
        return chunked_cross_entropy(scores, targets, valid, label_smoothing)
    return cross_entropy(scores, targets, valid, label_smoothing)


def cross_entropy(logits: Tensor, targets: Tensor, valid: Tensor | None, label_smoothing: float) -> Tensor:
    """Summed over real targets: logits (B, T, V), targets (B, T), valid (B, T) True for real ones.

    With smoothing, a share of the probability is spread evenly over the vocabulary (Szegedy et al. 2016).
    """
    if valid is not None:
        logits, targets = logits[valid], targets[valid]  # (N, V), (N)
    return functional.cross_entropy(
        logits.flatten(0, -2).float(), targets.flatten(), label_smoothing=label_smoothing, reduction="sum"
    )


def chunked_cross_entropy(scores: Scores, targets: Tensor, valid: Tensor | None, label_smoothing: float) -> Tensor:
    """The same from vectors (B, T, D) and the output layer, without ever holding all logits."""
    x = scores.x.flatten(0, -2) if valid is None else scores.x[valid]  # (N, D)
    y = targets.flatten() if valid is None else targets[valid]  # (N)
    total: Tensor = _Chunked.apply(x, scores.weight, scores.bias, y, label_smoothing)  # type: ignore[no-untyped-call]
    return total


def sampled_cross_entropy(scores: Scores, targets: Tensor, valid: Tensor, drawn: Tensor, expected: Tensor) -> Tensor:
    """The same by `drawn` words (K) instead of all (Bengio and Senécal 2008).

    A word that was to be `expected` (K) n times among those drawn counts 1/n, so the sum over them is that over all
    other words, give or take; the true word counts once, and not again where it was drawn.
    """
    x, y, table, bias = scores.x[valid], targets[valid], scores.weight, scores.bias  # (N, D), (N)
    assert isinstance(table, Tensor), "weights that learn are float32"
    at = (x * table[y]).sum(-1, keepdim=True).float()  # (N, 1)
    others = functional.linear(x, table[drawn]).float() - expected.log()  # (N, K)
    if bias is not None:
        at, others = at + bias[y, None], others + bias[drawn]
    others = others.masked_fill(drawn == y[:, None], -torch.inf)
    return (torch.cat([at, others], dim=1).logsumexp(-1, keepdim=True) - at).sum()


class _Chunked(torch.autograd.Function):
    """The gradient of softmax and cross-entropy is p - truth, so it is ready as soon as p is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, smoothing: float) -> Tensor:
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
        matrix, words = weight.to(dtype), len(weight)
        d_x, d_weight = torch.empty_like(x), torch.zeros_like(weight)
        d_bias = None if bias is None else torch.zeros_like(bias)
        total = torch.zeros((), device=x.device)
        rows = max(MIN_ROWS, CHUNK_NUMBERS // words)
        for part, truth, d_part in zip(x.to(dtype).split(rows), y.split(rows), d_x.split(rows), strict=True):
            logits = functional.linear(part, matrix, None if bias is None else bias.to(dtype)).float()  # (n, V)
            at = logits.gather(1, truth[:, None])
            mean = logits.mean(-1, keepdim=True)
            norm = logits.logsumexp(-1, keepdim=True)
            total += (norm - (1 - smoothing) * at - smoothing * mean).sum()
            p = logits.sub_(norm).exp_().sub_(smoothing / words)
            p.scatter_add_(1, truth[:, None], torch.full_like(at, smoothing - 1.0))
            if d_bias is not None:
                d_bias += p.sum(0)
            p = p.to(dtype)
            d_part.copy_(p @ matrix)
            d_weight += p.mT @ part
        ctx.save_for_backward(d_x, d_weight, d_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        d_x, d_weight, d_bias = ctx.saved_tensors
        return grad * d_x, grad * d_weight, None if d_bias is None else grad * d_bias, None, None
