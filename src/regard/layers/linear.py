"""The linear layer: x W^T + b, by the faster of PyTorch's two matrix products for a CPU, MKL's and oneDNN's."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

LARGE = 1_500_000
"A matrix of so many numbers is faster through oneDNN, for one row or a thousand; a smaller one is slower."
ONEDNN: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """oneDNN's product is for float32 on a CPU, and knows neither gradients nor automatic bfloat16."""
    large = ONEDNN is not None and weight.numel() >= LARGE and x.numel() > 0
    plain = x.dtype == weight.dtype == torch.float32 and x.is_cpu and weight.is_cpu
    if large and plain and not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu"):
        return ONEDNN(x, weight, bias, "none", [], "")
    return functional.linear(x, weight, bias)


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
