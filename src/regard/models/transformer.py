"""The Transformer (Vaswani et al. 2017): an encoder reads, a decoder writes and looks back at what was read.

BART, Marian, Pegasus and T5 are configurations of this wiring (presets/transformer.toml, presets/t5.toml).
"""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from regard.config import require
from regard.layers.choices import StackConfig
from regard.layers.decoder import Decoder
from regard.layers.encoder import Encoder
from regard.layers.head import Unembed, pool
from regard.layers.linear import Weight
from regard.layers.state import KeyValueState
from regard.models.base import Model, Output, TextConfig


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TextConfig):
    layout: str = "marian"
    vocab_size: int = 37_000
    pad_id: int | None = 36_999
    eos_ids: tuple[int, ...] = (0,)
    start_id: int | None = 36_999
    embed_scale: bool = True
    dropout: float = 0.1
    n_decoder_layers: int | None = None
    "Blocks of the decoder; as many as the encoder's when absent."
    n_decoder_heads: int | None = None
    "Heads of the decoder; as many as the encoder's when absent."
    d_decoder_ff: int | None = None
    "Inner feed-forward width of the decoder; the encoder's when absent."
    target_vocab_size: int | None = None
    "Words of the decoder; the encoder's when absent."
    tie: Literal["all", "target", "sides", "none"] = "all"
    "Who shares a table: both sides and the output, target and output, both sides without the output, or nobody."
    logit_bias: bool = True
    "Whether every word has a bias of its own in the output."
    scale_logits: bool = False
    "Whether the last vectors are divided by the square root of d_model before the output, as in T5."

    def __post_init__(self) -> None:
        super().__post_init__()
        shared = self.tie in ("all", "sides")
        require(
            not shared or self.target_vocab_size in (None, self.vocab_size),
            f"both sides share one table, but vocab_size is {self.vocab_size} and target_vocab_size "
            f"{self.target_vocab_size}",
        )
        assert self.decoder  # its own sizes are checked too

    @property
    def decoder(self) -> StackConfig:
        """The decoder's stack: the encoder's with its own depth, heads and width."""
        own = {"n_layers": self.n_decoder_layers, "n_heads": self.n_decoder_heads, "d_ff": self.d_decoder_ff}
        values = {name: getattr(self, name) for name in StackConfig.__dataclass_fields__}
        return StackConfig(**values | {name: value for name, value in own.items() if value is not None})

    @property
    def out_size(self) -> int:
        return self.target_vocab_size or self.vocab_size

    def filled(self) -> dict[str, Any]:
        return super().filled() | {
            "n_decoder_layers": self.decoder.n_layers,
            "n_decoder_heads": self.decoder.n_heads,
            "d_decoder_ff": self.decoder.d_ff,
            "target_vocab_size": self.out_size,
        }


class Transformer(Model):
    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config, config.vocab_size)
        self.decoder = Decoder(config.decoder, config.out_size, cross=True, tied=config.tie in ("all", "sides"))
        self.unembed = Unembed(
            config.d_model,
            config.out_size,
            tied=config.tie in ("all", "target"),
            bias=config.logit_bias,
            scale=config.d_model**-0.5 if config.scale_logits else 1.0,
        )

    @property
    def target_table(self) -> Weight:
        """The token table of the decoder, whoever owns it."""
        token = self.decoder.embed.token or self.encoder.embed.token
        assert token is not None
        return token.weight

    def forward(
        self, src: Tensor, tgt: Tensor, src_valid: Tensor | None = None, tgt_valid: Tensor | None = None
    ) -> Output:
        """Ids `src` (B, S) and `tgt` (B, T), the latter starting with `start_id`; logits (B, T, V)."""
        memory = self.encode(src, src_valid)
        hidden = self.decoder(tgt, tgt_valid, memory=memory, memory_valid=src_valid, table=self.target_table)
        return Output(self.unembed.scores(hidden, self.target_table), hidden)

    def encode(self, src: Tensor, valid: Tensor | None = None) -> Tensor:
        return self.encoder(src, valid)  # (B, S, D)

    def new_state(self, memory: Tensor, valid: Tensor | None, max_len: int) -> KeyValueState:
        return self.decoder.new_state(len(memory), max_len, memory=memory, memory_valid=valid)

    def step(self, ids: Tensor, state: KeyValueState, valid: Tensor | None = None) -> Tensor:
        """Append ids (B, T) to the state; scores (B, V) of the token after each row's last real one."""
        hidden = self.decoder.advance(ids, state, valid, table=self.target_table)
        return self.unembed(pool(hidden, valid, "last"), self.target_table)

    def steps(self, ids: Tensor, state: KeyValueState, n_last: int) -> Tensor:
        """The same for the last `n_last` of the ids: scores (B, n, V), by which speculation judges what it proposed."""
        hidden = self.decoder.advance(ids, state, table=self.target_table)
        return self.unembed(hidden[:, -n_last:], self.target_table)
