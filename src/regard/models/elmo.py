"""ELMo (Peters et al. 2018): a vector for a word that depends on all words around it.

Two language models read a text, one forwards and one backwards, and share the words' table and the output layer. A
word's vector is a mix of all layers, γ Σ s_l [ahead_l; back_l]; its shares s (a softmax) and scale γ a task learns.

What differs from the paper: words, or pieces of them, are looked up in a table and not spelt by a network over letters;
states are not projected; and the output layer is the words' table. As in the paper's own training, a step compares with
some drawn words instead of all (`drawn`).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import require
from regard.layers.choices import MAX_LAYERS
from regard.layers.dropout import Dropout
from regard.layers.head import Unembed
from regard.layers.recurrent import Recurrence, TagHead, align, realign
from regard.models.base import Model, ModelConfig, Output


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(ModelConfig):
    layout: str = "regard-elmo"
    vocab_size: int = 20_000
    pad_id: int | None = 0
    d_model: int = 256
    "Width of a word's vector; each direction, and the words' table, has half of it."
    n_layers: int = 2
    "LSTMs one above the other, in each direction."
    dropout: float = 0.1
    "Share of numbers dropped between layers while the language models learn."
    drawn: int = 2048
    "Words of a step that stand for the whole vocabulary while the language models learn; 0 for all of it."
    tag_dropout: float = 0.5
    "The same before a tag is read."
    heads: tuple[Literal["two_way_lm", "tag"], ...] = ("two_way_lm",)
    "What the vectors are for; empty for the vectors alone."
    max_len: int = 512
    "The longest text in words; nothing ends there, but windows count on it."

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_layers", "max_len"):
            value, limit = getattr(self, name), MAX_LAYERS if name == "n_layers" else 2**31
            require(0 < value <= limit, f"{name} is {value}", f"expected 1 to {limit:,}")
        require(0 <= self.drawn <= 2**31, f"drawn is {self.drawn}", f"expected 0 to {2**31:,}")
        require(self.d_model % 2 == 0, f"d_model is {self.d_model}", "two directions share it: an even number")
        for name in ("dropout", "tag_dropout"):
            value = getattr(self, name)
            require(0 <= value < 1, f"{name} is {value}", "expected a share from 0 to below 1")
        require("tag" not in self.heads or bool(self.labels), "a head that tags needs the names of its labels")


class Mix(nn.Module):
    """One vector out of those of all layers: γ Σ s_l h_l, the shares s summing to 1."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(1))

    @property
    def shares(self) -> Tensor:
        return self.weights.softmax(-1)

    def forward(self, layers: Tensor) -> Tensor:
        return self.gamma * (self.shares[:, None, None, None] * layers).sum(0)  # (L, B, T, D) -> (B, T, D)


class Reader(nn.Module):
    """The two language models without their output layer; padding may stand on either side."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        width = config.d_model // 2
        self.embed = nn.Embedding(config.vocab_size, width)
        self.dropout = Dropout(config.dropout)
        self.ahead, self.back = (
            nn.ModuleList(Recurrence("lstm", width, width, 1) for _ in range(config.n_layers)) for _ in range(2)
        )

    def forward(self, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """Ids (B, T) to all layers (1 + L, B, T, D), the words' own vectors first; half of D has read what comes
        before a word and the word, half the word and what comes after it."""
        turn = turned(ids, valid)
        words = self.embed(ids) if valid is None else align(self.embed(ids), valid)
        ahead, back = self._read(self.ahead, words), self._read(self.back, _taken(words, turn))
        layers = [torch.cat([a, _taken(b, turn)], dim=-1) for a, b in zip(ahead, back, strict=True)]
        return torch.stack(layers if valid is None else [realign(layer, valid) for layer in layers])

    def _read(self, layers: nn.ModuleList, x: Tensor) -> list[Tensor]:
        found = [x]
        for number, layer in enumerate(layers):
            out, _ = layer(self.dropout(found[-1]))  # padding comes last now, where no real word looks
            found.append(out + found[-1] if number else out)
        return found


def turned(ids: Tensor, valid: Tensor | None) -> Tensor:
    """Places (B, T) that read each row's real words, which come first, from the last on. Their own inverse."""
    places = torch.arange(ids.size(1), device=ids.device).expand_as(ids)
    lengths = ids.new_full((len(ids), 1), ids.size(1)) if valid is None else valid.sum(-1, keepdim=True)
    return torch.where(places < lengths, lengths - 1 - places, places)


def _taken(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places[..., None].expand_as(x))


class Elmo(Model):
    config: ElmoConfig

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.reader = Reader(config)
        self.mix = Mix(config.n_layers + 1)
        self.dropout = Dropout(config.dropout)
        if "two_way_lm" in config.heads:
            self.mix.requires_grad_(False)  # only a task can tell which layer it needs
            self.unembed = Unembed(config.d_model // 2, config.vocab_size, tied=True, bias=True)
        if "tag" in config.heads:
            self.tags = TagHead(config.d_model, len(config.labels), dropout=config.tag_dropout)

    def forward(self, ids: Tensor, valid: Tensor | None = None, *, at: Tensor | None = None) -> Output:
        """`ids` (B, T), `valid` True for real tokens, to vectors (B, T, D).

        With tags, `at` (B, T) marks those to be read. A language model scores at each place the word after it
        (`of_head["ahead"]`) and the word before it (`of_head["back"]`).
        """
        layers = self.reader(ids, valid)
        if "two_way_lm" in self.config.heads:
            table = self.reader.embed.weight
            halves = self.dropout(layers[-1]).chunk(2, dim=-1)  # (B, T, D / 2) each
            ahead, back = (self.unembed.scores(half, table) for half in halves)
            return Output(ahead, layers[-1], of_head={"ahead": ahead, "back": back})
        mixed = self.mix(layers)
        if "tag" not in self.config.heads:
            return Output(mixed, mixed)
        tags = self.tags(mixed, valid, at)
        return Output(tags, mixed, of_head={"tag": tags})

    def vectors(self, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """A vector (B, T, D) for each token where it stands."""
        return self.mix(self.reader(ids, valid))
