"""Tiny real translators, Transformers and RNNs, with sources to read: what the searches are tried on."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from models import tiny
from regard.models.recurrent import RecurrentConfig, build

VOCAB, END = 11, 0
ENDS = (0, 1, 2)
"With three of eleven words for the end, texts of all lengths are written; smaller vocabularies have one."
TRANSFORMERS = ["transformer", "pegasus", "bart", "t5"]
RECURRENT = ["rnn", "gru dot", "lstm additive"]
ALL = TRANSFORMERS + RECURRENT


def make(name: str, *, seed: int = 0, vocab: int = VOCAB) -> Any:
    ids = {"vocab_size": vocab, "pad_id": vocab - 1, "start_id": vocab - 1}
    ids["eos_ids"] = ENDS if vocab == VOCAB else (END,)  # type: ignore[assignment]
    if name in TRANSFORMERS:
        return loud(tiny.make(name, seed=seed, max_len=64, **ids), "cross.")
    cell, _, attention = name.partition(" ")
    torch.manual_seed(seed)
    config = RecurrentConfig(cell=cell, attention=attention or "none", d_model=8, **ids)  # type: ignore[arg-type]
    return loud(tiny.shaken(build(config)), "")


@torch.no_grad()
def loud(model: Any, part: str) -> Any:
    """Random weights hardly listen to the source: one part speaks up, and every source has a text of its own."""
    for name, parameter in model.named_parameters():
        if part in name:
            parameter *= 4
    return model


@dataclass
class Writer:
    """A model that has read its sources (B, S)."""

    model: Any
    src: Tensor
    valid: Tensor

    @property
    def start(self) -> Tensor:
        return torch.full((len(self.src),), self.model.config.start_id)

    def state(self, limit: int) -> Any:
        with torch.no_grad():
            return self.model.new_state(self.model.encode(self.src, self.valid), self.valid, limit)

    def alone(self, row: int) -> "Writer":
        length = int(self.valid[row].sum())
        return Writer(self.model, self.src[row : row + 1, :length], self.valid[row : row + 1, :length])

    @torch.no_grad()
    def totals(self, row: int, texts: Sequence[tuple[int, ...]]) -> list[float]:
        """The log-probability of each text, all in one pass; what is written behind an end does not count."""
        one, longest = self.alone(row), max(map(len, texts))
        ids = torch.tensor([[*text, *[END] * (longest - len(text))] for text in texts])
        tgt = torch.cat([torch.full_like(ids[:, :1], self.model.config.start_id), ids[:, :-1]], dim=1)
        every = one.model(one.src.expand(len(texts), -1), tgt).logits.log_softmax(-1)  # (B, T, V)
        real = torch.arange(longest) < torch.tensor([len(text) for text in texts])[:, None]
        return (every.gather(-1, ids[..., None])[..., 0] * real).sum(-1).tolist()

    @torch.no_grad()
    def log_probs(self, row: int, ids: tuple[int, ...] | list[int]) -> list[float]:
        """Of each token, by one pass over the whole text."""
        one = self.alone(row)
        tgt = torch.tensor([[self.model.config.start_id, *ids[:-1]]])
        every = one.model(one.src, tgt).logits[0].float().log_softmax(-1)  # (T, V)
        return [float(every[t, id]) for t, id in enumerate(ids)]


def writer(name: str, n: int = 3, *, seed: int = 0, vocab: int = VOCAB) -> Writer:
    """`n` sources of 1 to 6 tokens, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(0, vocab - 1, (n, 6), generator=generator)
    lengths = torch.randint(1, 7, (n,), generator=generator)
    valid = torch.arange(6) < lengths[:, None]
    return Writer(make(name, seed=seed, vocab=vocab), src.masked_fill(~valid, vocab - 1), valid)


def every_text(vocab: int, limit: int) -> list[tuple[int, ...]]:
    """All that can be written: what ends, and what is cut off at the limit."""
    inner = range(1, vocab)
    ended = [(*text, END) for n in range(limit) for text in product(inner, repeat=n)]
    return ended + list(product(inner, repeat=limit))


class Retold:
    """A state without a memory: it keeps the ids, and everything is computed again at each step."""

    def __init__(self, model: Any, src: Tensor, valid: Tensor) -> None:
        self.model, self.src, self.valid = model, src, valid
        self.ids = torch.zeros(len(src), 0, dtype=torch.long)
        self.lengths = torch.zeros(len(src), dtype=torch.long)

    def reorder(self, index: Tensor) -> None:
        self.src, self.valid, self.ids, self.lengths = (
            x[index] for x in (self.src, self.valid, self.ids, self.lengths)
        )

    def truncate(self, lengths: Tensor) -> None:
        raise NotImplementedError

    def insert(self, row: int, other: "Retold") -> None:
        raise NotImplementedError

    def free(self, row: int) -> None:
        raise NotImplementedError

    @staticmethod
    def step(ids: Tensor, state: "Retold", valid: Tensor | None) -> Tensor:
        state.ids = torch.cat([state.ids, ids], dim=1)
        state.lengths = state.lengths + ids.size(1)
        return state.model(state.src, state.ids, state.valid).logits[:, -1]
