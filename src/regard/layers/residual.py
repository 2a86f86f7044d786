"""Residual connection and normalisation around a sub-layer: the only place that knows pre-norm from post-norm."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from regard.layers.dropout import Dropout

NormOrder = Literal["pre", "post"]


class Residual(nn.Module):
    """`post` is the paper's norm(x + f(x)); `pre`, x + f(norm(x)), keeps the residual stream untouched."""

    def __init__(self, norm: nn.Module, order: NormOrder, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.pre = order == "pre"
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
