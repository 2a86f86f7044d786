"""The position-wise feed-forward network: the same two-layer perceptron for every token (2017, section 3.3).

No information moves between tokens here. `gated` multiplies a second projection in (Shazeer 2020).
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from regard.layers.dropout import Dropout
from regard.layers.linear import Linear, joined

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "tanh"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),  # GPT-2's approximation
    "silu": functional.silu,
    "tanh": functional.tanh,
}


class FeedForward(nn.Module):
    def __init__(
        self, d_model: int, d_ff: int, activation: Activation, *, gated: bool, bias: bool, dropout: float
    ) -> None:
        super().__init__()
        self.activation, self.activation_name = ACTIVATIONS[activation], activation
        self.gate = Linear(d_model, d_ff, bias=bias) if gated else None
        self.up = Linear(d_model, d_ff, bias=bias)
        self.dropout = Dropout(dropout)
        self.down = Linear(d_ff, d_model, bias=bias)
        self.gate_up: Linear | None = None

    def fuse(self) -> None:
        """From here on one product makes the gate and what goes through it; for a network done with training."""
        if self.gate_up is None and self.gate is not None:
            self.gate_up = joined([self.gate, self.up])
            del self.gate, self.up

    def forward(self, x: Tensor) -> Tensor:
        if self.gate_up is not None:
            gate, up = self.gate_up(x).chunk(2, dim=-1)
            inner = self.activation(gate).mul_(up)
        elif self.gate is None:
            inner = self.activation(self.up(x))
        else:
            inner = self.activation(self.gate(x)) * self.up(x)
        return self.down(self.dropout(inner))
