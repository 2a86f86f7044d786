"""What sits on top of a stack: from vectors to words, classes, tags and answer spans."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.layers.feedforward import ACTIVATIONS, Activation
from regard.layers.linear import Weight, linear
from regard.layers.norm import make_norm

PoolKind = Literal["first", "mean", "last"]


@dataclass(frozen=True)
class Scores:
    """Logits still to be computed: a training step goes through them in pieces and never holds them all."""

    x: Tensor
    weight: Weight
    bias: Tensor | None

    def dense(self) -> Tensor:
        return linear(self.x.to(self.weight.dtype), self.weight, self.bias)  # (..., V)


class Unembed(nn.Module):
    """Vectors to a score per word of the vocabulary.

    Tied, it owns no matrix: the token table itself, turned around, is the output layer (Press and Wolf 2017).
    """

    def __init__(self, d_model: int, vocab_size: int, *, tied: bool, bias: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.d_model, self.vocab_size, self.scale = d_model, vocab_size, scale
        self.weight = None if tied else nn.Parameter(torch.empty(vocab_size, d_model))
        if self.weight is not None:
            nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None

    def forward(self, x: Tensor, table: Weight | None) -> Tensor:
        return self.scores(x, table).dense()

    def scores(self, x: Tensor, table: Weight | None) -> Scores:
        weight = table if self.weight is None else self.weight
        assert weight is not None, "a tied output layer needs the table it shares"
        return Scores(x * self.scale if self.scale != 1.0 else x, weight, self.bias)


class MaskedLmHead(nn.Module):
    """BERT's head for hidden words: a dense layer, a norm, and the vocabulary."""

    def __init__(
        self, d_model: int, width: int, vocab_size: int, *, activation: Activation, norm_eps: float, tied: bool
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = make_norm("layer", width, norm_eps)
        self.unembed = Unembed(width, vocab_size, tied=tied, bias=True)

    def forward(self, x: Tensor, table: Weight | None) -> Scores:
        return self.unembed.scores(self.norm(self.activation(self.dense(x))), table)


class ReplacedTokenHead(nn.Module):
    """ELECTRA's head: one score per token, positive where the token looks replaced."""

    def __init__(self, d_model: int, activation: Activation) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = ACTIVATIONS[activation]
        self.out = nn.Linear(d_model, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.activation(self.dense(x))).squeeze(-1)  # (B, T)


class Pooler(nn.Module):
    """The first real token's vector, which stands for the whole text, through a dense layer."""

    def __init__(self, d_model: int, activation: Activation) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        return self.activation(self.dense(pool(x, valid, "first")))  # (B, D)


def pool(x: Tensor, valid: Tensor | None, kind: PoolKind) -> Tensor:
    """(B, T, D) -> (B, D) without parameters, over real tokens only."""
    if valid is None:
        return x.mean(1) if kind == "mean" else x[:, 0 if kind == "first" else -1]
    if kind == "mean":
        weights = valid[..., None].to(x.dtype)
        return (x.masked_fill(~valid[..., None], 0.0)).sum(1) / weights.sum(1).clamp(min=1)
    order = torch.arange(x.size(1), device=x.device)
    row = torch.arange(len(x), device=x.device)
    if kind == "first":
        return x[row, torch.where(valid, order, x.size(1) - 1).amin(-1)]
    return x[row, torch.where(valid, order, 0).amax(-1)]
