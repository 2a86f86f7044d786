"""BERT (Devlin et al. 2018) and its kin: an encoder that sees both sides, and the heads of its tasks.

RoBERTa, DistilBERT and each half of ELECTRA are configurations of the same wiring.
"""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from regard.config import require
from regard.layers.dropout import Dropout
from regard.layers.encoder import Encoder
from regard.layers.feedforward import Activation
from regard.layers.head import MaskedLmHead, Pooler, ReplacedTokenHead, Scores
from regard.models.base import Model, Output, TextConfig

HeadName = Literal["masked_lm", "next_sentence", "replaced_token", "classify", "tag", "span"]


@dataclass(frozen=True, kw_only=True)
class BertConfig(TextConfig):
    layout: str = "bert"
    vocab_size: int = 30_522
    pad_id: int | None = 0
    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = 12
    activation: Activation = "gelu"
    norm_eps: float = 1e-12
    position: Literal["learned", "sinusoidal", "sinusoidal_halves", "none"] = "learned"
    embed_norm: bool = True
    n_segments: int = 2
    dropout: float = 0.1
    attn_dropout: float = 0.1
    tie: bool = True
    "Whether the masked-word head reuses the token table."
    masked_lm_activation: Activation | None = None
    "Activation of the masked-word head; that of the blocks when absent."
    pooler: Activation | None = "tanh"
    "Activation of the layer over the first token; no such layer when absent."
    pooled_heads_dropout: float = 0.1
    "Dropout before the heads that classify."
    heads: tuple[HeadName, ...] = ()
    "What the model is for; empty for the bare encoder."

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.pooler is not None or not {"next_sentence", "classify"} & set(self.heads),
            f"the heads {', '.join(self.heads)} read the pooled vector, but there is no pooler",
        )
        require(
            bool(self.labels) or not {"classify", "tag"} & set(self.heads),
            "a head that classifies needs the names of its labels",
        )

    def filled(self) -> dict[str, Any]:
        return super().filled() | {"masked_lm_activation": self.masked_lm_activation or self.activation}


class Bert(Model):
    config: BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config, config.vocab_size)
        self.pooler = Pooler(config.d_model, config.pooler) if config.pooler else None
        self.dropout = Dropout(config.pooled_heads_dropout)
        self.heads = nn.ModuleDict({name: self._make_head(name) for name in config.heads})

    def _make_head(self, name: HeadName) -> nn.Module:
        config = self.config
        if name == "masked_lm":
            sizes = config.d_model, config.d_embed or config.d_model, config.vocab_size
            activation = config.masked_lm_activation or config.activation
            return MaskedLmHead(*sizes, activation=activation, norm_eps=config.norm_eps, tied=config.tie)
        if name == "replaced_token":
            return ReplacedTokenHead(config.d_model, config.activation)
        n_out = len(config.labels) if name in ("classify", "tag") else 2
        return nn.Linear(config.d_model, n_out)

    def forward(
        self, ids: Tensor, valid: Tensor | None = None, *, segments: Tensor | None = None, at: Tensor | None = None
    ) -> Output:
        """`ids` (B, T); `valid` (B, T) True for real tokens; `segments` (B, T) 0 for sentence A, 1 for B.

        Heads that read each token read only those that `at` (B, T) marks, where it is given: (N, ...) for (B, T, ...).
        """
        hidden = self.encoder(ids, valid, segments=segments)
        pooled = None if self.pooler is None else self.pooler(hidden, valid)
        read = hidden if at is None else hidden[at]
        heads: dict[str, Tensor | Scores] = {name: self.apply_head(name, read, pooled) for name in self.config.heads}
        return Output(next(iter(heads.values()), hidden), hidden, pooled, heads)

    def apply_head(self, name: str, hidden: Tensor, pooled: Tensor | None) -> Tensor | Scores:
        head = self.heads[name]
        if name == "masked_lm":
            assert self.encoder.embed.token is not None
            return head(hidden, self.encoder.embed.token.weight)
        if name == "replaced_token":
            return head(hidden)
        return head(self.dropout(pooled if name in ("next_sentence", "classify") else hidden))
