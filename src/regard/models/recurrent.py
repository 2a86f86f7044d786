"""Recurrent models, what the Transformer was made to beat: a language model, a translator and a classifier.

The translator is the encoder-decoder of Sutskever et al. (2014), with the attention of Bahdanau et al. (2015), that of
Luong et al. (2015), or none. In all three the decoder starts from the encoder's last state.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import require
from regard.errors import UserError
from regard.layers.choices import MAX_LAYERS
from regard.layers.dropout import Dropout
from regard.layers.head import Scores, Unembed
from regard.layers.recurrent import (
    AdditiveAttention,
    AttentionKind,
    CellKind,
    DotAttention,
    Recurrence,
    RecurrentState,
    Source,
    align,
    full_precision,
    realign,
)
from regard.models.base import Model, ModelConfig, Output


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    layout: str = "regard-recurrent"
    vocab_size: int = 8_000
    pad_id: int | None = 7_999
    eos_ids: tuple[int, ...] = (0,)
    start_id: int | None = 7_999
    kind: Literal["language_model", "translator", "classifier"] = "translator"
    "What the model is for: the next token, another language, or a label."
    cell: CellKind = "lstm"
    "What passes from token to token: a plain tanh state, an LSTM's or a GRU's."
    d_model: int = 512
    "Width of the states; two directions get half of it each."
    d_embed: int | None = None
    "Width of the embeddings; d_model when absent."
    n_layers: int = 1
    "Recurrent layers, one above the other, on each side."
    bidirectional: bool = False
    "Whether a translator's encoder or a classifier reads from both ends."
    attention: AttentionKind = "none"
    "How a translator's decoder looks back at the source."
    learnt_start: bool = True
    "Whether the state before the first token is learnt, or zero."
    dropout: float = 0.0
    "Share of numbers dropped after the embedding, between layers and before the output."
    tie: bool = False
    "Whether the output layer is the token table of the target; both must be d_model wide."
    max_len: int = 512
    "The longest text in tokens; nothing ends there, but decoding counts on it."

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "d_embed", "n_layers", "max_len"):
            value, limit = getattr(self, name), MAX_LAYERS if name == "n_layers" else 2**31
            require(value is None or 0 < value <= limit, f"{name} is {value}", f"expected 1 to {limit:,}")
        require(0.0 <= self.dropout < 1.0, f"dropout is {self.dropout}", "expected a share from 0 to below 1")
        require(not self.bidirectional or self.d_model % 2 == 0, f"two directions cannot share d_model {self.d_model}")
        require(not self.tie or self.width == self.d_model, f"tied: d_embed {self.width} is not d_model {self.d_model}")
        require(self.attention == "none" or self.kind == "translator", f"a {self.kind} has no source to attend to")
        require(self.kind != "classifier" or bool(self.labels), "a classifier needs the names of its labels")

    @property
    def width(self) -> int:
        """Of the embeddings."""
        return self.d_embed or self.d_model


class Encoder(nn.Module):
    """Token ids (B, S) to states (B, S, D), and the carry after each row's last real token."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.dropout = Dropout(config.dropout)
        sizes = config.width, config.d_model, config.n_layers
        ways = {"bidirectional": config.bidirectional, "learnt_start": config.learnt_start}
        self.recurrence = Recurrence(config.cell, *sizes, dropout=config.dropout, **ways)

    def forward(self, ids: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.recurrence(self.dropout(self.embed(ids)), valid=valid)


class Decoder(nn.Module):
    """Token ids (B, T) to outputs (B, T, D), perhaps with a look back at a source.

    Additive attention comes before the recurrence: the query is the last state and the context enters with the
    token, so tokens go one by one. Dot attention comes after it: the query is the new state, so a whole text
    goes at once. Either way the output is tanh(W [context; h]).
    """

    def __init__(self, config: RecurrentConfig, *, learnt_start: bool = False) -> None:
        super().__init__()
        d_model, self.before = config.d_model, config.attention == "additive"
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.dropout = Dropout(config.dropout)
        sizes = config.width + d_model if self.before else config.width, d_model, config.n_layers
        self.recurrence = Recurrence(config.cell, *sizes, dropout=config.dropout, learnt_start=learnt_start)
        self.attention: AdditiveAttention | DotAttention | None = None
        if config.attention != "none":
            self.attention = AdditiveAttention(d_model) if self.before else DotAttention()
            self.combine = nn.Linear(2 * d_model, d_model)
        self.unembed = Unembed(d_model, config.vocab_size, tied=config.tie, bias=True)

    def forward(
        self, ids: Tensor, carry: Tensor, valid: Tensor | None = None, source: Source | None = None
    ) -> tuple[Tensor, Tensor]:
        """All tokens at once, as in training: outputs (B, T, D) and attention weights (B, T, S)."""
        x = self.dropout(self.embed(ids))
        if self.before:
            return self._one_by_one(x, carry, valid, source)
        h, _ = self.recurrence(x, carry, valid)
        context, weights = self._look(h, source)
        return self._combine(context, h), weights

    def _one_by_one(
        self, x: Tensor, carry: Tensor, valid: Tensor | None, source: Source | None
    ) -> tuple[Tensor, Tensor]:
        seen = []
        with full_precision():
            for token in (x if valid is None else align(x, valid)).unbind(1):
                carry, context, weights = self._advance(token, carry, source)
                seen.append((context, _top(carry), weights))
        context, h, weights = (torch.cat(each, dim=1) for each in zip(*seen, strict=True))
        out = self._combine(context, h)
        return (out, weights) if valid is None else (realign(out, valid), realign(weights, valid))

    def _advance(self, x: Tensor, carry: Tensor, source: Source | None) -> tuple[Tensor, Tensor, Tensor]:
        """One token (B, d_embed): the new carry, the context (B, 1, D) and its weights (B, 1, S)."""
        if self.before:
            context, weights = self._look(_top(carry), source)
            return self.recurrence.step(torch.cat([x, context[:, 0]], dim=-1), carry), context, weights
        carry = self.recurrence.step(x, carry)
        return carry, *self._look(_top(carry), source)

    def look_at(self, states: Tensor, valid: Tensor | None = None) -> Source | None:
        """An encoder's states (B, S, D) with their keys; nothing for a decoder that does not look."""
        if self.attention is None:
            return None
        valid = torch.ones_like(states[..., 0], dtype=torch.bool) if valid is None else valid
        return Source(states, self.attention.keys(states), valid)

    def _look(self, h: Tensor, source: Source | None) -> tuple[Tensor, Tensor]:
        return (h[..., :0], h[..., :0]) if self.attention is None else self.attention(h, source)

    def _combine(self, context: Tensor, h: Tensor) -> Tensor:
        return h if self.attention is None else torch.tanh(self.combine(torch.cat([context, h], dim=-1)))

    def scores(self, hidden: Tensor) -> Scores:
        return self.unembed.scores(self.dropout(hidden), self.embed.weight)

    def step(self, ids: Tensor, state: RecurrentState, valid: Tensor | None = None) -> Tensor:
        """Append ids (B, T) to the state; scores (B, V) of the token after each row's last real one."""
        state.open(ids.size(1), valid)
        out = torch.zeros((), device=ids.device)
        for t, x in enumerate(self.dropout(self.embed(ids)).unbind(1)):
            carry, context, _ = self._advance(x, state.carry, state.source)
            real = None if valid is None else valid[:, t]
            state.append(carry, real)
            new = self._combine(context, _top(carry))[:, 0]  # (B, D)
            out = new if real is None else torch.where(real[:, None], new, out)
        return self.scores(out).dense()


def _top(carry: Tensor) -> Tensor:
    """The hidden state of the last layer, as a text of one token (B, 1, D)."""
    return carry[:, 0, -1:]


class RecurrentLanguageModel(Model):
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.decoder = Decoder(config, learnt_start=config.learnt_start)

    def forward(self, ids: Tensor, valid: Tensor | None = None, *, documents: Tensor | None = None) -> Output:
        """`ids` (B, T); `valid` (B, T) True for real tokens, padding may stand on either side. Of several `documents`
        in a row each is read with the state that the one before left: what ends a text is a sign to forget."""
        hidden, _ = self.decoder(ids, self.decoder.recurrence.first(len(ids)), valid)
        return Output(self.decoder.scores(hidden), hidden)

    def new_state(self, batch: int, max_len: int) -> RecurrentState:
        return RecurrentState(self.decoder.recurrence.first(batch), max_len)

    def step(self, ids: Tensor, state: RecurrentState, valid: Tensor | None = None) -> Tensor:
        return self.decoder.step(ids, state, valid)


@dataclass(frozen=True)
class Memory:
    """What the encoder hands on: states (B, S, D) to look back at, and the carry (B, P, L, D) to start from."""

    states: Tensor
    last: Tensor


class RecurrentTranslator(Model):
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def encode(self, src: Tensor, valid: Tensor | None = None) -> Memory:
        return Memory(*self.encoder(src, valid))

    def forward(
        self, src: Tensor, tgt: Tensor, src_valid: Tensor | None = None, tgt_valid: Tensor | None = None
    ) -> Output:
        """Ids `src` (B, S) and `tgt` (B, T), the latter starting with `start_id`; logits (B, T, V)."""
        hidden, _ = self._decode(src, tgt, src_valid, tgt_valid)
        return Output(self.decoder.scores(hidden), hidden)

    def attention(
        self, src: Tensor, tgt: Tensor, src_valid: Tensor | None = None, tgt_valid: Tensor | None = None
    ) -> Tensor:
        """The alignment (B, T, S): where the decoder looked while it wrote the token after each of `tgt`."""
        if self.config.attention == "none":
            raise UserError("this model has no attention to show", "train one with attention = 'dot' or 'additive'")
        _, weights = self._decode(src, tgt, src_valid, tgt_valid)
        return weights if tgt_valid is None else weights * tgt_valid[..., None]

    def _decode(
        self, src: Tensor, tgt: Tensor, src_valid: Tensor | None, tgt_valid: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        memory = self.encode(src, src_valid)
        return self.decoder(tgt, memory.last, tgt_valid, self.decoder.look_at(memory.states, src_valid))

    def new_state(self, memory: Memory, valid: Tensor | None, max_len: int) -> RecurrentState:
        return RecurrentState(memory.last, max_len, self.decoder.look_at(memory.states, valid))

    def step(self, ids: Tensor, state: RecurrentState, valid: Tensor | None = None) -> Tensor:
        return self.decoder.step(ids, state, valid)


class RecurrentClassifier(Model):
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.dropout = Dropout(config.dropout)
        self.classify = nn.Linear(config.d_model, len(config.labels))

    def forward(self, ids: Tensor, valid: Tensor | None = None) -> Output:
        """`ids` (B, S); logits (B, labels) read off the last state."""
        hidden, last = self.encoder(ids, valid)
        pooled = _top(last)[:, 0]  # (B, D)
        return Output(self.classify(self.dropout(pooled)), hidden, pooled)


def build(config: RecurrentConfig) -> Model:
    if config.kind == "classifier":
        return RecurrentClassifier(config)
    return RecurrentTranslator(config) if config.kind == "translator" else RecurrentLanguageModel(config)
