"""Layer normalisation (Ba et al. 2016) and its shorter cousin, RMS norm (Zhang and Sennrich 2019)."""

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def make_norm(kind: NormKind, width: int, eps: float) -> nn.Module:
    """`layer` subtracts the mean, divides by the deviation, scales and shifts; `rms` only divides and scales."""
    return nn.LayerNorm(width, eps=eps) if kind == "layer" else nn.RMSNorm(width, eps=eps)
