"""ViT (Dosovitskiy et al. 2020) and DeiT (Touvron et al. 2021): an encoder over the patches of an image.

With latents it is a Perceiver (Jaegle et al. 2021): a few learnt vectors attend to one another, then to the patches,
whose number counts only there, and only once. The first latent is what else the class token is.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import require
from regard.errors import UserError
from regard.layers.choices import StackConfig
from regard.layers.embedding import PatchEmbedding
from regard.layers.encoder import Stack
from regard.layers.feedforward import Activation
from regard.layers.head import Pooler
from regard.layers.mask import Mask, positions_of
from regard.layers.residual import NormOrder
from regard.models.base import Model, ModelConfig, Output


@dataclass(frozen=True, kw_only=True)
class VitConfig(StackConfig, ModelConfig):
    layout: str = "vit"
    vocab_size: int = 0
    image_size: tuple[int, int] = (224, 224)
    "Height and width of the images in pixels."
    patch_size: int = 16
    "Side of a square patch in pixels."
    channels: int = 3
    labels: tuple[str, ...] = tuple(f"class {i}" for i in range(1000))
    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = 12
    activation: Activation = "gelu"
    norm_order: NormOrder = "pre"
    norm_eps: float = 1e-12
    final_norm: bool = True
    position: Literal["none"] = "none"
    "Patch positions are learned with the patch embedding."
    window_shape: Literal["square", "row"] = "square"
    "Whether a window counts rows and columns of patches, or patches in the order in which they are read."
    distil: bool = False
    "Whether a second leading token learns from a teacher."
    n_latents: int = 0
    "Learnt vectors that look at the patches, and go through the blocks instead of them; none in a ViT."
    pooler: Activation | None = None
    "Activation of the layer over the class token; no such layer when absent."
    head: Literal["classify", "teacher", "none"] = "classify"
    "One classifier, two averaged ones (class and distillation token), or bare vectors."

    def __post_init__(self) -> None:
        super().__post_init__()
        height, width = self.image_size
        require(
            0 < self.patch_size <= min(height, width) and max(height, width) <= 2**16,
            f"patches of {self.patch_size} do not fit an image of {height} x {width}",
            "expected patches no larger than the image, and an image of at most 65,536 pixels a side",
        )
        require(0 < self.channels <= 2**16, f"channels is {self.channels}", "expected 1 to 65,536, for example 3")
        require(bool(self.labels) or self.head == "none", "a head that classifies needs the names of its labels")
        require(self.distil or self.head != "teacher", "a teacher's head needs the distillation token")
        require(0 <= self.n_latents <= 2**16, f"n_latents is {self.n_latents}", "expected 0 to 65,536")
        alone = not self.distil and self.window is None
        require(not self.n_latents or alone, "latents have no place and no teacher", "leave out window and distil")

    @property
    def grid(self) -> tuple[int, int]:
        return self.image_size[0] // self.patch_size, self.image_size[1] // self.patch_size


class Vit(Model):
    config: VitConfig

    def __init__(self, config: VitConfig) -> None:
        super().__init__(config)
        self.embed = PatchEmbedding(config, config.grid, config.patch_size, config.channels, distil=config.distil)
        if config.n_latents:
            self.latents = nn.Parameter(torch.empty(1, config.n_latents, config.d_model))
            nn.init.normal_(self.latents, std=0.02)
            self.decoder = Stack(config, causal=False, cross=True)
        else:
            self.encoder = Stack(config, causal=False)
        self.pooler = Pooler(config.d_model, config.pooler) if config.pooler else None
        n_labels, has_head = len(config.labels), config.head != "none"
        self.classify = nn.Linear(config.d_model, n_labels) if has_head else None
        self.classify_distil = nn.Linear(config.d_model, n_labels) if config.head == "teacher" else None

    def forward(self, pixels: Tensor) -> Output:
        """`pixels` (B, channels, height, width)."""
        expected = (self.config.channels, *self.config.image_size)
        if tuple(pixels.shape[1:]) != expected:
            raise UserError(f"the image has shape {tuple(pixels.shape[1:])}", f"the model takes {expected}")
        hidden = self._looked(self.embed(pixels))
        pooled = None if self.pooler is None else self.pooler(hidden)
        if self.classify is None:
            return Output(hidden, hidden, pooled)
        heads = {"classify": self.classify(hidden[:, 0])}
        if self.classify_distil is None:
            return Output(heads["classify"], hidden, pooled)
        heads["distil"] = self.classify_distil(hidden[:, 1])
        return Output((heads["classify"] + heads["distil"]) / 2, hidden, pooled, heads)

    def _looked(self, x: Tensor) -> Tensor:
        """Class token and patches (B, T, D) through all blocks, or what latents (B, N, D) saw of them."""
        if self.config.n_latents:
            latents = self.latents.expand(len(x), -1, -1)
            places = positions_of(None, latents.size(1), x.device)
            return self.decoder.run(latents, places, Mask(), memory=x, memory_mask=Mask())
        grid = self.config.grid if self.config.window_shape == "square" else None
        mask = Mask(window=self.config.window, grid=grid, n_global=self.embed.n_leading)
        return self.encoder.run(x, positions_of(None, x.size(1), x.device), mask)
