"""The linear layer, x W^T + b, by the fastest product that this PyTorch and this CPU have for it.

Float weights go through MKL or oneDNN, shorter ones through fbgemm (half.py, int8.py); models see one function.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.short import ShortWeight, kernel

LARGE = 500_000
"A matrix of so many numbers, read from memory, is faster through oneDNN: twice for one row, a tenth for 32."
ONEDNN: Any = kernel("mkldnn", "_linear_pointwise") if torch.backends.mkldnn.is_available() else None

Weight = Tensor | ShortWeight
Function = Callable[[Tensor], Tensor]


def linear(x: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
    """oneDNN's product is for float32 on a CPU, and knows neither gradients nor automatic bfloat16."""
    if isinstance(weight, ShortWeight):
        return weight.product(x, bias)
    plain = x.dtype == torch.float32 and x.is_cpu and x.numel() > 0
    if plain and is_large(weight) and not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu"):
        return ONEDNN(x, weight, bias, "none", [], "")
    return functional.linear(x, weight, bias)


def is_large(weight: Tensor) -> bool:
    return ONEDNN is not None and weight.numel() >= LARGE and weight.dtype == torch.float32 and weight.is_cpu


def lookup(ids: Tensor, table: Weight) -> Tensor:
    """The rows of a token table."""
    return table.rows(ids) if isinstance(table, ShortWeight) else functional.embedding(ids, table)


class Linear(nn.Linear):
    weight: Weight  # type: ignore[assignment]  # a Parameter in PyTorch, here perhaps a shorter one

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def ready(layer: Linear) -> Function:
    """The layer as a function of rows (M, K), M > 0, without gradients: what `linear` asks each time is asked once."""
    weight, bias = layer.weight, layer.bias
    if isinstance(weight, ShortWeight):
        return weight.ready(bias)
    if is_large(weight):
        return lambda x: ONEDNN(x, weight, bias, "none", [], "")
    return lambda x: functional.linear(x, weight, bias)


def joined(parts: Sequence[Linear]) -> Linear:
    """One layer that gives what these give, side by side: a product of their size costs less than theirs."""
    assert all(type(part) is Linear for part in parts), "adapters are merged first"
    with torch.device("meta"):
        whole = Linear(parts[0].in_features, sum(part.out_features for part in parts), parts[0].bias is not None)
    hold(whole, "weight", join([part.weight for part in parts]))
    if whole.bias is not None:
        hold(whole, "bias", join([part.bias for part in parts]))
    return whole


def join(weights: Sequence[Weight]) -> Weight:
    short = [weight for weight in weights if isinstance(weight, ShortWeight)]
    floats = [weight.detach() for weight in weights if isinstance(weight, Tensor)]
    return type(short[0]).joined(short) if short else torch.cat(floats)


def hold(layer: nn.Module, name: str, value: Weight) -> None:
    """Put a weight into a layer, whatever it held before."""
    delattr(layer, name)
    setattr(layer, name, nn.Parameter(value) if isinstance(value, Tensor) else value)
