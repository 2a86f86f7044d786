"""Where a token stands: sinusoidal, learned, relative (T5) and rotary (RoFormer, Llama) positions.

Sinusoidal and learned positions are vectors added to the embedding. Relative positions are a bias added to
the attention scores; rotary positions turn queries and keys. The first two live in the embedding, the last
two in the stack of blocks, which hands them to every layer.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import require

PositionKind = Literal["none", "sinusoidal", "sinusoidal_halves", "learned", "relative", "rotary"]


def sinusoids(n_positions: int, width: int, *, interleaved: bool = True) -> Tensor:
    """(n, D) table of section 3.5: sine and cosine of position / 10000^(2i/D).

    The paper interleaves them (sin, cos, sin, cos ...); tensor2tensor, Marian and Pegasus put all sines in
    the first half. Both are the same up to a permutation of the width.
    """
    frequencies = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies  # (n, D/2 rounded up)
    pair = angles.sin(), angles[:, : width // 2].cos()
    if not interleaved:
        return torch.cat(pair, dim=-1).float()
    table = torch.empty(n_positions, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = pair
    return table.float()


class SinusoidalPosition(nn.Module):
    """Adds nothing to learn, and has no last position: the table grows when a longer text comes."""

    def __init__(self, width: int, *, interleaved: bool) -> None:
        super().__init__()
        self.width, self.interleaved = width, interleaved
        self.table: Tensor | None = None  # not a buffer: it can always be computed again, on any device

    def forward(self, positions: Tensor) -> Tensor:
        if positions.device.type == "meta":
            return positions.new_empty((*positions.shape, self.width), dtype=torch.get_default_dtype())
        needed = int(positions.max()) + 1 if positions.numel() else 1
        if self.table is None or len(self.table) < needed or self.table.device != positions.device:
            rows = 1 << max(needed - 1, 127).bit_length()
            self.table = sinusoids(rows, self.width, interleaved=self.interleaved).to(positions.device)
        return self.table[positions]


class LearnedPosition(nn.Embedding):
    """One trained vector per position. `offset` rows at the front stay unused (BART and RoBERTa have two)."""

    def __init__(self, max_len: int, width: int, *, offset: int = 0) -> None:
        super().__init__(max_len + offset, width)
        self.offset = offset

    def forward(self, positions: Tensor) -> Tensor:
        needed = 0 if positions.is_meta or not positions.numel() else int(positions.max()) + 1
        known = self.num_embeddings - self.offset
        require(needed <= known, f"a text of {needed} tokens; the model has learned {known} positions", "shorten it")
        return super().forward(positions + self.offset)


class RelativeBias(nn.Module):
    """T5: a learned score per head and distance; near distances have a bucket each, far ones share (section 2.1)."""

    def __init__(self, n_heads: int, n_buckets: int, max_distance: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(n_buckets, n_heads)
        self.max_distance, self.bidirectional = max_distance, bidirectional

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions (B or 1, T) and (B or 1, S) -> bias (B or 1, H, T, S)."""
        distance = keys[:, None, :] - queries[:, :, None]  # (B, T, S)
        return self.table(self.bucket(distance)).permute(0, 3, 1, 2)

    def bucket(self, distance: Tensor) -> Tensor:
        n_buckets, shift = self.table.num_embeddings, torch.zeros_like(distance)
        if self.bidirectional:  # one half for keys to the left, one for keys to the right
            n_buckets //= 2
            shift = (distance > 0).long() * n_buckets
            distance = distance.abs()
        else:
            distance = -distance.clamp(max=0)
        exact = n_buckets // 2
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (ratio * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
        return shift + torch.where(distance < exact, distance, far)


@dataclass(frozen=True)
class RopeScaling:
    """How a model trained on short texts turns slower on long ones."""

    kind: Literal["linear", "llama3"] = "llama3"
    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_len: int = 8192

    def __post_init__(self) -> None:
        require(0 < self.factor < math.inf, f"rope factor is {self.factor}", "expected a positive number")
        require(self.original_max_len > 0, f"rope original_max_len is {self.original_max_len}", "expected at least 1")
        low, high = self.low_freq_factor, self.high_freq_factor
        require(0 <= low < high < math.inf, f"rope low_freq_factor is {low}, high_freq_factor {high}")


@dataclass(frozen=True)
class Rotation:
    """The angles of one forward pass; `turn` rotates queries or keys by them."""

    cos: Tensor  # (B or 1, 1, T, K)
    sin: Tensor
    "Of the first half with the sign that the second half gets there: (a, b) becomes (a cos - b sin, b cos + a sin)."

    def turn(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.addcmul(x * self.cos, torch.cat([second, first], dim=-1), self.sin)


class RotaryPosition(nn.Module):
    """Su et al. 2021: the dot product of a turned query and a turned key depends only on their distance."""

    def __init__(self, d_head: int, theta: float, scaling: RopeScaling | None) -> None:
        super().__init__()
        self.d_head, self.theta, self.scaling = d_head, theta, scaling
        self._known: Tensor | None = None  # not a buffer: it can always be computed again, on any device

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        if self._known is None or self._known.device != positions.device:
            self._known = self.frequencies(positions.device)
        angles = positions[:, None, :, None].float() * self._known  # (B, 1, T, K/2)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        return Rotation(torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1))

    def frequencies(self, device: torch.device) -> Tensor:
        exponent = torch.arange(0, self.d_head, 2, device=device).float() / self.d_head
        frequencies = 1.0 / self.theta**exponent  # (K/2)
        if self.scaling is None:
            return frequencies
        if self.scaling.kind == "linear":
            return frequencies / self.scaling.factor
        return self._llama3(frequencies, self.scaling)

    @staticmethod
    def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
        """Slow waves are stretched by the factor, fast ones kept, those between mixed linearly."""
        turns = scaling.original_max_len * frequencies / (2 * math.pi)  # in the original context
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        mix = ((turns - low) / (high - low)).clamp(0.0, 1.0)
        return (1 - mix) * frequencies / scaling.factor + mix * frequencies
