"""GPT (Radford et al. 2018, 2019; Brown et al. 2020): a decoder without memory that predicts the next token."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.config import require
from regard.layers.decoder import Decoder
from regard.layers.feedforward import Activation
from regard.layers.head import Scores, Unembed, pool
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

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.labels) or self.head != "classify", "a head that classifies needs the names of its labels")


class Gpt(Model):
    config: GptConfig

    def __init__(self, config: GptConfig) -> None:
        super().__init__(config)
        self.decoder = Decoder(config, config.vocab_size)
        self.unembed: Unembed | None = None
        self.classify: nn.Linear | None = None
        if config.head == "language_model":
            self.unembed = Unembed(config.d_model, config.vocab_size, tied=config.tie)
        if config.head == "classify":
            self.classify = nn.Linear(config.d_model, len(config.labels), bias=False)

    def forward(
        self, ids: Tensor, valid: Tensor | None = None, *, documents: Tensor | None = None, n_before: int = 0
    ) -> Output:
        """`ids` (B, T); `valid` (B, T) True for real tokens, padding may stand on either side; `documents` (B, T) the
        number of each token's text, where a row holds several; at the first `n_before` it only looks back."""
        hidden = self.decoder(ids, valid, documents=documents, n_before=n_before)
        if self.classify is not None:
            pooled = pool(hidden, valid, "last")
            return Output(self.classify(pooled), hidden, pooled)
        return Output(hidden if self.unembed is None else self._scores(hidden), hidden)

    def _scores(self, hidden: Tensor) -> Scores:
        assert self.unembed is not None
        assert self.decoder.embed.token is not None
        return self.unembed.scores(hidden, self.decoder.embed.token.weight)

    def new_state(self, batch: int, max_len: int) -> KeyValueState:
        return self.decoder.new_state(batch, max_len)

    def step(self, ids: Tensor, state: KeyValueState, valid: Tensor | None = None) -> Tensor:
        """Append ids (B, T) to the state; scores (B, V) of the token after each row's last real one."""
        hidden = self.decoder.advance(ids, state, valid)
        return self._scores(pool(hidden, valid, "last")).dense()

    def steps(self, ids: Tensor, state: KeyValueState, n_last: int) -> Tensor:
        """The same for the last `n_last` of the ids: scores (B, n, V), by which speculation judges what it proposed."""
        return self._scores(self.decoder.advance(ids, state)[:, -n_last:]).dense()
