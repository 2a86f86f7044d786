"""Recurrent networks: one token after the other, and all that was read in one state.

`Recurrence` runs PyTorch's kernels; `rnn_cell`, `lstm_cell` and `gru_cell` are their readable twins. A decoder may
look back at what an encoder read, by the two attentions older than the Transformer: additive (Bahdanau et al.
2015) and dot product (Luong et al. 2015).

What is carried from token to token is one tensor, the carry (B, P, L, D): L layers · P parts, the hidden state h and,
in an LSTM, the cell c beside it.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.dropout import Dropout
from regard.layers.mask import positions_of
from regard.layers.state import put_row, require_room

CellKind = Literal["rnn", "lstm", "gru"]
AttentionKind = Literal["none", "dot", "additive"]

NETS: dict[CellKind, type[nn.RNN] | type[nn.LSTM] | type[nn.GRU]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def rnn_cell(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    """h' = tanh(W x + U h + b) (Elman 1990)."""
    return torch.tanh(functional.linear(x, w_ih, b_ih) + functional.linear(h, w_hh, b_hh))


def lstm_cell(
    x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
) -> tuple[Tensor, Tensor]:
    """The new h and c (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""
    i, f, g, o = (functional.linear(x, w_ih, b_ih) + functional.linear(h, w_hh, b_hh)).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()  # forget some of the old, let in some of the new
    return o.sigmoid() * c.tanh(), c


def gru_cell(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    """The new h: a mix z of the old one and a candidate n, which sees the old one through r (Cho et al. 2014)."""
    r_x, z_x, n_x = functional.linear(x, w_ih, b_ih).chunk(3, dim=-1)
    r_h, z_h, n_h = functional.linear(h, w_hh, b_hh).chunk(3, dim=-1)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    n = (n_x + r * n_h).tanh()
    return (1 - z) * n + z * h


class Recurrence(nn.Module):
    """Vectors (B, S, d_in) to vectors (B, S, D), each of which knows those before it.

    Bidirectional, each direction is D/2 wide, so whoever reads the result need not know.
    """

    def __init__(
        self,
        kind: CellKind,
        d_in: int,
        d_model: int,
        n_layers: int,
        *,
        dropout: float = 0.0,
        bidirectional: bool = False,
        learnt_start: bool = False,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.directions = 2 if bidirectional else 1
        self.shape = (2 if kind == "lstm" else 1, n_layers, d_model)  # (P, L, D)
        self.dropout = Dropout(dropout)
        self.layers = NETS[kind](
            d_in,
            d_model // self.directions,
            n_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if n_layers > 1 else 0.0,  # PyTorch warns: it drops between layers only
        )
        self.start = nn.Parameter(torch.zeros(self.shape)) if learnt_start else None

    def first(self, batch: int) -> Tensor:
        """The carry before the first token: learnt, or zero."""
        start = self.layers.all_weights[0][0].new_zeros(self.shape) if self.start is None else self.start
        return start.expand(batch, -1, -1, -1)

    def forward(self, x: Tensor, carry: Tensor | None = None, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The outputs, zero at padding, and the carry after each row's last real token (B, P, L, D)."""
        carry = self.first(len(x)) if carry is None else carry
        with full_precision():
            x = x.to(carry.dtype)
            if valid is None or bool(valid.all()):
                out, last = self.layers(x, self._split(carry))
                return out, self._join(last)
            lengths = valid.sum(-1)
            sizes = lengths.clamp(min=1).cpu()  # packing knows no empty rows: one reads a zero, and forgets it below
            packed = pack_padded_sequence(align(x, valid), sizes, batch_first=True, enforce_sorted=False)
            out, last = self.layers(packed, self._split(carry))
            out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
            last = torch.where((lengths > 0)[:, None, None, None], self._join(last), carry)
        return realign(out, valid), last

    def step(self, x: Tensor, carry: Tensor) -> Tensor:
        """One token (B, d_in) further: the new carry."""
        assert self.directions == 1, "who reads both ways needs the whole text"
        after = []
        with full_precision():
            x = x.to(carry.dtype)
            for layer, weights in enumerate(self.layers.all_weights):
                parts = carry[:, :, layer].unbind(1)  # (B, D) each
                parts = self._cell(self.dropout(x) if layer else x, parts, weights)
                x = parts[0]
                after.append(torch.stack(parts, dim=1))
        return torch.stack(after, dim=2)  # (B, P, L, D)

    def _cell(self, x: Tensor, parts: tuple[Tensor, ...], weights: list[nn.Parameter]) -> tuple[Tensor, ...]:
        if self.kind == "lstm":
            return torch.lstm_cell(x, parts, *weights)
        cell = torch.gru_cell if self.kind == "gru" else torch.rnn_tanh_cell
        return (cell(x, parts[0], *weights),)

    def _split(self, carry: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The carry as PyTorch wants it: h, or (h, c), each (layers · directions, B, width of a direction)."""
        ways = carry.unflatten(-1, (self.directions, -1)).permute(1, 2, 3, 0, 4)
        parts = ways.flatten(1, 2).contiguous()
        return (parts[0], parts[1]) if self.kind == "lstm" else parts[0]

    def _join(self, parts: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        stacked = torch.stack(parts) if isinstance(parts, tuple) else parts[None]
        ways = stacked.unflatten(1, (-1, self.directions))  # (P, L, directions, B, width)
        return ways.permute(3, 0, 1, 2, 4).flatten(-2)  # (B, P, L, D)


def full_precision() -> AbstractContextManager[object]:
    """No automatic bfloat16 on a CPU: measured ten times slower, and PyTorch's LSTM stops with an error."""
    return torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()


def align(x: Tensor, valid: Tensor) -> Tensor:
    """(B, S, D) with each row's real tokens first, wherever the padding was, and zeros behind them."""
    order = (~valid).long().argsort(dim=-1, stable=True)
    return x.masked_fill(~valid[..., None], 0.0).gather(1, order[..., None].expand_as(x))


def realign(x: Tensor, valid: Tensor) -> Tensor:
    """The way back from `align`, with zeros at padding."""
    slots = positions_of(valid, valid.size(1), x.device)[..., None]
    return x.gather(1, slots.expand(-1, -1, x.size(-1))).masked_fill(~valid[..., None], 0.0)


class Source(NamedTuple):
    """What a decoder looks back at."""

    values: Tensor  # (B, S, D) the encoder's states
    keys: Tensor  # (B, S, D) the same, projected once for all queries
    valid: Tensor  # (B, S) True for real tokens


class DotAttention(nn.Module):
    """score(q, k) = q · k (Luong et al. 2015); it has no parameters."""

    def keys(self, states: Tensor) -> Tensor:
        return states

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT  # (B, T, S)

    def forward(self, queries: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        return weigh(self.scores(queries, source.keys), source)


class AdditiveAttention(nn.Module):
    """score(q, k) = v · tanh(W q + U k) (Bahdanau et al. 2015, A.1.2); U k is computed once for all queries."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w = nn.Linear(d_model, d_model, bias=False)
        self.u = nn.Linear(d_model, d_model, bias=False)
        self.v = nn.Linear(d_model, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        return self.u(states)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.v(torch.tanh(self.w(queries)[:, :, None] + keys[:, None])).squeeze(-1)  # (B, T, S)

    def forward(self, queries: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        return weigh(self.scores(queries, source.keys), source)


def weigh(scores: Tensor, source: Source) -> tuple[Tensor, Tensor]:
    """Contexts (B, T, D) and weights (B, T, S); both are zero where there is nothing to attend to."""
    closed = ~source.valid[:, None]
    # The lowest finite score, not -inf: a row without any open cell then has no NaN to pass on.
    weights = scores.masked_fill(closed, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(closed, 0.0)
    return weights @ source.values, weights


class RecurrentState:
    """Keeps the contract of `DecodingState`: every carry so far, so that a text can be taken back token by token.

    Slot p of a row holds the carry after p tokens; slot 0 is where its text starts, and outlives `free`.
    """

    def __init__(self, start: Tensor, max_len: int, source: Source | None = None) -> None:
        self.history = start.new_zeros(len(start), max_len + 1, *start.shape[1:])  # (B, 1 + longest text, P, L, D)
        self.history[:, 0] = start
        self.lengths = torch.zeros(len(start), dtype=torch.long, device=start.device)
        nothing = start.new_zeros(len(start), 0, start.size(-1))  # (B, 0, D)
        self.source = source or Source(nothing, nothing, nothing[..., 0].bool())

    @property
    def capacity(self) -> int:
        return self.history.size(1) - 1

    @property
    def carry(self) -> Tensor:
        return self.history[torch.arange(len(self.lengths), device=self.lengths.device), self.lengths]

    def open(self, n_tokens: int, valid: Tensor | None = None) -> None:
        """See that `n_tokens` more a row, or those of `valid` (B, T), fit, before the first is written."""
        longest = int((self.lengths + (n_tokens if valid is None else valid.sum(-1))).max())
        require_room(longest, self.capacity)

    def append(self, carry: Tensor, valid: Tensor | None = None) -> None:
        """The carry after one more token of each row, or of the rows in `valid` (B)."""
        rows = torch.arange(len(carry), device=carry.device)
        rows = rows if valid is None else rows[valid]
        self.lengths = self.lengths + (1 if valid is None else valid.long())
        self.history[rows, self.lengths[rows]] = carry[rows].to(self.history.dtype)

    def reorder(self, index: Tensor) -> None:
        self.history, self.lengths = self.history[index], self.lengths[index]
        self.source = Source(*(each[index] for each in self.source))

    def truncate(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)
        gone = torch.arange(self.capacity + 1, device=lengths.device) > self.lengths[:, None]
        self.history.masked_fill_(gone[:, :, None, None, None], 0.0)

    def insert(self, row: int, other: Self) -> None:
        self.history = put_row(self.history, row, other.history, 1)
        self.lengths = put_row(self.lengths.clone()[:, None], row, other.lengths[:, None], 1)[:, 0]
        pairs = zip(self.source, other.source, strict=True)
        self.source = Source(*(put_row(ours.clone(), row, theirs, 1) for ours, theirs in pairs))

    def free(self, row: int) -> None:
        self.history[row, 1:] = 0.0
        self.lengths = self.lengths.clone()
        self.lengths[row] = 0


class TagHead(nn.Module):
    """A tag for each word out of vectors that others have learnt: a small LSTM from both ends, and a choice."""

    def __init__(self, d_model: int, n_tags: int, *, dropout: float, width: int = 128) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.recurrence = Recurrence("lstm", d_model, width, 1, bidirectional=True)
        self.out = nn.Linear(width, n_tags)

    def forward(self, x: Tensor, valid: Tensor | None = None, at: Tensor | None = None) -> Tensor:
        """Scores (B, T, tags), or of those that `at` (B, T) marks (N, tags)."""
        x, _ = self.recurrence(self.dropout(x), valid=valid)
        return self.out(self.dropout(x if at is None else x[at]))
