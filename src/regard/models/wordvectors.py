"""Word vectors (Mikolov et al. 2013): a word is known by the company it keeps.

There are two tables: a word's vector, and its vector where it is the company of others (`contexts`), which is only
needed to learn. Skip-gram asks a word's vector for each word near it; CBOW asks the mean of the words near it for the
word itself. What the answers are compared with is drawn (data/company.py), so no softmax over all words is needed.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.config import require
from regard.layers.recurrent import TagHead
from regard.models.base import Model, ModelConfig, Output


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig(ModelConfig):
    layout: str = "regard-wordvectors"
    vocab_size: int = 20_000
    pad_id: int | None = 0
    n_layers: ClassVar[int] = 0
    kind: Literal["skip_gram", "cbow"] = "skip_gram"
    "Whether a word foretells those near it, or those near it the word."
    d_model: int = 100
    "Numbers of a vector."
    window: int = 5
    "The farthest that a word counts as near; for each word a distance up to it is drawn."
    negatives: int = 5
    "How many drawn words weigh against each true one."
    drawn: int = 128
    "Words drawn for a step, which all of its words are compared with."
    subsample: float = 1e-3
    "Words with a larger share of the text than this are left out now and then; 0 keeps all."
    dropout: float = 0.5
    "Share of numbers dropped before a tag is read; nothing is dropped from vectors that are learnt."
    heads: tuple[Literal["context", "tag"], ...] = ("context",)
    "What the vectors are for: to be learnt, to read tags from; empty for the vectors alone."
    max_len: int = 512
    "The longest text in words; nothing ends there, but windows count on it."

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "window", "negatives", "drawn", "max_len"):
            value = getattr(self, name)
            require(0 < value <= 2**31, f"{name} is {value}", f"expected 1 to {2**31:,}")
        require(0 <= self.subsample <= 1, f"subsample is {self.subsample}", "expected a share from 0 to 1")
        require(0 <= self.dropout < 1, f"dropout is {self.dropout}", "expected a share from 0 to below 1")
        require("tag" not in self.heads or bool(self.labels), "a head that tags needs the names of its labels")


class WordVectorModel(Model):
    config: WordVectorsConfig

    def __init__(self, config: WordVectorsConfig) -> None:
        super().__init__(config)
        self.vectors = nn.Embedding(config.vocab_size, config.d_model)
        if "context" in config.heads:
            self.contexts = nn.Parameter(torch.zeros(config.vocab_size, config.d_model))
        if "tag" in config.heads:
            self.tags = TagHead(config.d_model, len(config.labels), dropout=config.dropout)

    def forward(
        self,
        ids: Tensor,
        valid: Tensor | None = None,
        *,
        at: Tensor | None = None,
        near: Tensor | None = None,
        negatives: Tensor | None = None,
    ) -> Output:
        """`ids` (B, T) to vectors (B, T, D), and to tags where the model has them, only those that `at` (B, T) marks.

        To learn, `near` (B, T, T) says which words are near which, and `negatives` (K) are those drawn for the
        step: `heads["near"]` then scores the true ones, (B, T, T) or for CBOW (B, T); `heads["far"]` (B, T, K) the
        drawn ones.
        """
        x = self.vectors(ids)  # (B, T, D)
        if "tag" in self.config.heads:
            tags = self.tags(x, valid, at)
            return Output(tags, x, of_head={"tag": tags})
        if near is None or negatives is None:
            return Output(x, x)
        true, drawn = self.contexts[ids], self.contexts[negatives]  # (B, T, D), (K, D)
        if self.config.kind == "cbow":
            share = near.to(x.dtype)
            x = share @ x / share.sum(-1, keepdim=True).clamp(min=1)  # the mean of the company
            scores = (x * true).sum(-1)
        else:
            scores = x @ true.mT
        return Output(scores, x, of_head={"near": scores, "far": x @ drawn.mT})
