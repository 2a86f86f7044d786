"""A small residual convolutional network (He et al. 2016): what ViT is compared with, and a teacher for DeiT.

Norms are over groups of channels, so a picture's numbers never depend on those beside it in a batch.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from regard.config import require
from regard.errors import UserError
from regard.layers.dropout import Dropout
from regard.models.base import Model, ModelConfig, Output


@dataclass(frozen=True, kw_only=True)
class ConvnetConfig(ModelConfig):
    layout: str = "regard-convnet"
    vocab_size: int = 0
    image_size: tuple[int, int] = (32, 32)
    channels: int = 3
    labels: tuple[str, ...] = tuple(f"class {i}" for i in range(10))
    widths: tuple[int, ...] = (32, 64, 128)
    "Channels of each stage; every stage after the first halves height and width."
    n_blocks: int = 2
    "Residual blocks of each stage."
    n_groups: int = 8
    "Channels are normalised in so many groups."
    dropout: float = 0.0
    "Share of numbers dropped before the labels."

    def __post_init__(self) -> None:
        require(0 < self.channels <= 2**16, f"channels is {self.channels}", "expected for example 3")
        require(0 < len(self.widths) <= 8, f"widths is {self.widths}", "expected one to eight stages")
        require(self.n_groups >= 1, f"n_groups is {self.n_groups}", "expected at least 1")
        good = all(0 < width <= 2**14 and width % self.n_groups == 0 for width in self.widths)
        require(good, f"widths is {self.widths}", f"expected multiples of n_groups ({self.n_groups})")
        require(0 < self.n_blocks <= 64, f"n_blocks is {self.n_blocks}", "expected 1 to 64")
        small = 0 < max(self.image_size) <= 2**16 and min(self.image_size) >= 2 ** (len(self.widths) - 1)
        require(small, f"image_size is {self.image_size}", "expected height and width that can be halved so often")
        require(bool(self.labels), "a network that classifies needs the names of its labels")

    def filled(self) -> dict[str, Any]:
        """With what stacks of blocks call their depth and width."""
        depth = len(self.widths) * (1 + 2 * self.n_blocks)
        return super().filled() | {"n_layers": depth, "d_model": self.widths[-1]}


class ResidualBlock(nn.Module):
    def __init__(self, width: int, n_groups: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(n_groups, width) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        h = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            h = conv(functional.relu(norm(h)))
        return x + h


class Convnet(Model):
    config: ConvnetConfig

    def __init__(self, config: ConvnetConfig) -> None:
        super().__init__(config)
        layers: list[nn.Module] = []
        before = config.channels
        for stage, width in enumerate(config.widths):
            layers.append(nn.Conv2d(before, width, 3, stride=2 if stage else 1, padding=1))
            layers += [ResidualBlock(width, config.n_groups) for _ in range(config.n_blocks)]
            before = width
        self.body = nn.Sequential(*layers)
        self.norm = nn.GroupNorm(config.n_groups, before)
        self.dropout = Dropout(config.dropout)
        self.classify = nn.Linear(before, len(config.labels))

    def forward(self, pixels: Tensor) -> Output:
        """`pixels` (B, channels, height, width)."""
        expected = (self.config.channels, *self.config.image_size)
        if tuple(pixels.shape[1:]) != expected:
            raise UserError(f"the image has shape {tuple(pixels.shape[1:])}", f"the model takes {expected}")
        hidden = functional.relu(self.norm(self.body(pixels))).flatten(2).mT  # (B, places, D)
        pooled = hidden.mean(1)  # (B, D)
        return Output(self.classify(self.dropout(pooled)), hidden, pooled)
