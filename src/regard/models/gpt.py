"""GPT (Radford et al. 2018, 2019; Brown et al. 2020): a decoder without memory that predicts the next token."""

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor, nn

from regard.layers.decoder import Decoder
from regard.layers.feedforward import Activation
from regard.layers.head import Unembed, pool
from regard.layers.position import PositionKind
from regard.layers.residual import NormOrder
from regard.layers.state import KeyValueState
from regard.models.base import Model, Output, TextConfig


@dataclass(frozen=True, kw_only=True)
class GptConfig(TextConfig):
    layout: str = "gpt2"
    vocab_size: int = 50_257
    bos_id: int | None = 50_256
    eos_ids: tuple[int, ...] = (50_256,)
    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = 12
    max_len: int = 1024
    activation: Activation = "gelu_tanh"
    norm_order: NormOrder = "pre"
    final_norm: bool = True
    position: PositionKind = "learned"
    tie: bool = True
    "Whether the output layer is the token table."
    head: Literal["language_model", "classify", "none"] = "language_model"
    "What the model is for: the next token, a class read off the last token, or bare vectors."


class Gpt(Model):
    config: GptConfig

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder = Decoder(config, config.vocab_size)
        self.unembed: Unembed | None = None
        self.classify: nn.Linear | None = None
        if config.head == "language_model":
            self.unembed = Unembed(config.d_model, config.vocab_size, tied=config.tie)
        if config.head == "classify":
            self.classify = nn.Linear(config.d_model, len(config.labels), bias=False)

    def forward(self, ids: Tensor, valid: Tensor | None = None) -> Output:
        """`ids` (B, T); `valid` (B, T) True for real tokens, padding may stand on either side."""
        hidden = self.decoder(ids, valid)
        if self.classify is not None:
            pooled = pool(hidden, valid, "last")
            return Output(self.classify(pooled), hidden, pooled)
        return Output(hidden if self.unembed is None else self._scores(hidden), hidden)

    def _scores(self, hidden: Tensor) -> Tensor:
        assert self.unembed is not None
        assert self.decoder.embed.token is not None
        return self.unembed(hidden, self.decoder.embed.token.weight)

    def new_state(self, batch: int, max_len: int) -> KeyValueState:
        return self.decoder.new_state(batch, max_len)

    def step(self, ids: Tensor, state: KeyValueState, valid: Tensor | None = None) -> Tensor:
        """Append ids (B, T) to the state; scores (B, V) of the token after each row's last real one."""
        hidden = self.decoder.advance(ids, state, valid)
        return self._scores(pool(hidden, valid, "last"))


_GPT2 = GptConfig(dropout=0.1, attn_dropout=0.1)

PRESETS: dict[str, GptConfig] = {
    "gpt": replace(  # GPT of 2018 had post-norm and 512 positions
        _GPT2, vocab_size=40_478, bos_id=None, eos_ids=(), max_len=512, norm_order="post", final_norm=False
    ),
    "gpt2": _GPT2,
    "gpt2-medium": replace(_GPT2, d_model=1024, n_heads=16, d_ff=4096, n_layers=24),
    "gpt2-large": replace(_GPT2, d_model=1280, n_heads=20, d_ff=5120, n_layers=36),
    "gpt2-xl": replace(_GPT2, d_model=1600, n_heads=25, d_ff=6400, n_layers=48),
    "gpt3": replace(_GPT2, d_model=12288, n_heads=96, d_ff=49152, n_layers=96, max_len=2048),
    "char-gpt": replace(  # a model for one evening: the sizes of nanoGPT's recipe for a CPU
        _GPT2, vocab_size=65, bos_id=None, eos_ids=(), d_model=128, n_heads=4, d_ff=512, n_layers=4, max_len=64
    ),
}
