"""Many vectors to one: what sentence-transformers' Pooling does, by its own names for the modes."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def pool(x: Tensor, kept: Tensor, modes: Sequence[str]) -> Tensor:
    """(B, T, D) -> (B, D), or D times the number of modes, over the tokens that are `kept` (B, T)."""
    return torch.cat([MODES[mode](x, kept) for mode in modes], dim=-1)


def _first(x: Tensor, kept: Tensor) -> Tensor:
    return x[torch.arange(len(x), device=x.device), kept.int().argmax(1)]  # (B, D)


def _last(x: Tensor, kept: Tensor) -> Tensor:
    last = x.size(1) - 1 - kept.int().flip(1).argmax(1)  # (B)
    return (x * kept[..., None])[torch.arange(len(x), device=x.device), last]  # (B, D)


def _max(x: Tensor, kept: Tensor) -> Tensor:
    return x.masked_fill(~kept[..., None], -torch.inf).amax(1)  # (B, D)


def _mean(x: Tensor, kept: Tensor) -> Tensor:
    return _weighted(x, kept.to(x.dtype))


def _mean_sqrt(x: Tensor, kept: Tensor) -> Tensor:
    """The sum over the root of the number: long texts get longer vectors."""
    return _mean(x, kept) * kept.sum(1, keepdim=True).to(x.dtype).sqrt()


def _later_counts_more(x: Tensor, kept: Tensor) -> Tensor:
    """Weights 1, 2, 3, ... by the place in the text (Muennighoff 2022), also where its beginning is not kept."""
    return _weighted(x, kept * torch.arange(1, x.size(1) + 1, device=x.device, dtype=x.dtype))


def _weighted(x: Tensor, weights: Tensor) -> Tensor:
    # Not a product with the weights: what is left out may be NaN.
    x = x.masked_fill(weights[..., None] == 0, 0.0)
    return (x * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1e-9)  # (B, D)


MODES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt,
    "weightedmean": _later_counts_more,
    "lasttoken": _last,
}
"In the order in which sentence-transformers joins them where several are switched on."
