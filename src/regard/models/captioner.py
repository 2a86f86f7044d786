"""A captioner: ViT's encoder sees a picture, GPT-2's decoder, with cross-attention, says what is on it."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from regard.config import require
from regard.errors import UserError
from regard.layers.choices import StackConfig
from regard.layers.decoder import Decoder
from regard.layers.embedding import PatchEmbedding
from regard.layers.encoder import Stack
from regard.layers.feedforward import Activation
from regard.layers.head import Unembed, pool
from regard.layers.linear import Weight
from regard.layers.mask import Mask, positions_of
from regard.layers.residual import NormOrder
from regard.layers.state import KeyValueState
from regard.models.base import Model, Output, TextConfig


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(TextConfig):
    """The stack is the encoder's; what differs in the decoder has fields of its own."""

    layout: str = "vision-encoder-decoder"
    image_size: tuple[int, int] = (224, 224)
    "Height and width of the images in pixels."
    patch_size: int = 16
    channels: int = 3
    vocab_size: int = 50_257
    bos_id: int | None = 50_256
    eos_ids: tuple[int, ...] = (50_256,)
    start_id: int | None = 50_256
    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = 12
    max_len: int = 1024
    activation: Activation = "gelu"
    norm_order: NormOrder = "pre"
    norm_eps: float = 1e-12
    final_norm: bool = True
    position: Literal["none"] = "none"
    "Patch positions are learned with the patch embedding; the decoder's are learned too."
    n_decoder_layers: int = 12
    n_decoder_heads: int = 12
    d_decoder_ff: int = 3072
    decoder_activation: Activation = "gelu_tanh"
    decoder_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        height, width = self.image_size
        fits = 0 < self.patch_size <= min(height, width) and max(height, width) <= 2**16
        require(fits, f"patches of {self.patch_size} do not fit an image of {height} x {width}")
        require(0 < self.channels <= 2**16, f"channels is {self.channels}", "expected 1 to 65,536, for example 3")
        assert self.decoder  # its own sizes are checked too

    @property
    def grid(self) -> tuple[int, int]:
        return self.image_size[0] // self.patch_size, self.image_size[1] // self.patch_size

    @property
    def decoder(self) -> StackConfig:
        own: dict[str, Any] = {"n_layers": self.n_decoder_layers, "n_heads": self.n_decoder_heads}
        own |= {"d_ff": self.d_decoder_ff, "activation": self.decoder_activation, "norm_eps": self.decoder_norm_eps}
        values = {name: getattr(self, name) for name in StackConfig.__dataclass_fields__}
        return StackConfig(**values | own | {"position": "learned", "qkv_bias": True})


class Captioner(Model):
    config: CaptionerConfig

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        self.embed = PatchEmbedding(config, config.grid, config.patch_size, config.channels, distil=False)
        self.encoder = Stack(config, causal=False)
        self.decoder = Decoder(config.decoder, config.vocab_size, cross=True)
        self.unembed = Unembed(config.d_model, config.vocab_size, tied=True)

    @property
    def table(self) -> Weight:
        assert self.decoder.embed.token is not None
        return self.decoder.embed.token.weight

    def forward(self, pixels: Tensor, tgt: Tensor, valid: None = None, tgt_valid: Tensor | None = None) -> Output:
        """`pixels` (B, channels, height, width), `tgt` (B, T) starting with `start_id`; logits (B, T, V)."""
        hidden = self.decoder(tgt, tgt_valid, memory=self.encode(pixels))
        return Output(self.unembed.scores(hidden, self.table), hidden)

    def encode(self, pixels: Tensor, valid: None = None) -> Tensor:
        expected = (self.config.channels, *self.config.image_size)
        if tuple(pixels.shape[1:]) != expected:
            raise UserError(f"the image has shape {tuple(pixels.shape[1:])}", f"the model takes {expected}")
        x = self.embed(pixels)
        return self.encoder.run(x, positions_of(None, x.size(1), x.device), Mask())  # (B, S, D)

    def new_state(self, memory: Tensor, valid: None, max_len: int) -> KeyValueState:
        return self.decoder.new_state(len(memory), max_len, memory=memory)

    def step(self, ids: Tensor, state: KeyValueState, valid: Tensor | None = None) -> Tensor:
        """Append ids (B, T) to the state; scores (B, V) of the token after each row's last real one."""
        return self.unembed(pool(self.decoder.advance(ids, state, valid), valid, "last"), self.table)
