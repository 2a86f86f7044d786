"""From token ids, or pixels, to the vectors that enter the first block."""

import math

import torch
from torch import Tensor, nn

from regard.layers.choices import StackConfig
from regard.layers.dropout import Dropout
from regard.layers.linear import Weight, lookup
from regard.layers.norm import make_norm
from regard.layers.position import LearnedPosition, SinusoidalPosition


class TokenTable(nn.Embedding):
    weight: Weight  # type: ignore[assignment]  # as in Linear


class Embedding(nn.Module):
    """Token + position + segment, whichever the configuration has; then norm, dropout and projection.

    A tied embedding owns no token table: the caller hands it the one it shares.
    """

    def __init__(self, config: StackConfig, vocab_size: int, *, tied: bool = False) -> None:
        super().__init__()
        width = config.d_embed or config.d_model
        self.scale = math.sqrt(config.d_model) if config.embed_scale else 1.0
        self.token = None if tied else TokenTable(vocab_size, width)
        self.position = make_position(config, width)
        self.segment = nn.Embedding(config.n_segments, width) if config.n_segments else None
        self.norm = make_norm(config.norm, width, config.norm_eps) if config.embed_norm else None
        self.dropout = Dropout(config.dropout)
        self.project = nn.Linear(width, config.d_model) if width != config.d_model else None

    def forward(
        self, ids: Tensor, positions: Tensor, *, segments: Tensor | None = None, table: Weight | None = None
    ) -> Tensor:
        x = lookup(ids, _given(table) if self.token is None else self.token.weight)  # (B, T, D)
        if self.scale != 1.0:
            x = x * self.scale
        if self.segment is not None:
            x = x + self.segment(torch.zeros_like(ids) if segments is None else segments)
        if self.position is not None:
            x = x + self.position(positions).to(x.dtype)
        if self.norm is not None:
            x = self.norm(x)
        x = self.dropout(x)
        return x if self.project is None else self.project(x)


def _given(table: Weight | None) -> Weight:
    assert table is not None, "a tied embedding needs the table it shares"
    return table


def make_position(config: StackConfig, width: int) -> nn.Module | None:
    """The kind of position that is added to the embedding, or None when the blocks take care of it."""
    if config.position == "learned":
        return LearnedPosition(config.max_len, width, offset=config.position_offset)
    if config.position in ("sinusoidal", "sinusoidal_halves"):
        return SinusoidalPosition(width, interleaved=config.position == "sinusoidal")
    return None


class PatchEmbedding(nn.Module):
    """An image as a sequence (Dosovitskiy et al. 2020): one vector a patch, after the class token.

    DeiT adds a second leading token that learns from a teacher.
    """

    def __init__(self, config: StackConfig, grid: tuple[int, int], patch_size: int, channels: int, *, distil: bool):
        super().__init__()
        self.project = nn.Conv2d(channels, config.d_model, kernel_size=patch_size, stride=patch_size)
        self.first = nn.Parameter(torch.zeros(1, 1, config.d_model))
        self.distil = nn.Parameter(torch.zeros(1, 1, config.d_model)) if distil else None
        self.position = nn.Parameter(torch.zeros(1, grid[0] * grid[1] + self.n_leading, config.d_model))
        self.dropout = Dropout(config.dropout)
        nn.init.normal_(self.position, std=0.02)

    @property
    def n_leading(self) -> int:
        return 1 if self.distil is None else 2

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.project(pixels).flatten(2).mT  # (B, T, D)
        leading = [token.expand(len(pixels), -1, -1) for token in (self.first, self.distil) if token is not None]
        return self.dropout(torch.cat([*leading, patches], dim=1) + self.position)
