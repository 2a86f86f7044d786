"""What all models have in common: a named output, a configuration, sizes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.config import require
from regard.layers.attention import MultiHeadAttention
from regard.layers.block import Block
from regard.layers.choices import StackConfig
from regard.layers.encoder import Stack
from regard.layers.head import Scores
from regard.layers.lora import require_plain
from regard.layers.position import RelativeBias
from regard.layers.short import ShortWeight
from regard.machine import return_memory


@dataclass
class Output:
    """What a model returns; `logits` are those of its first head."""

    scores: Tensor | Scores
    hidden: Tensor  # (B, T, D) the last layer
    pooled: Tensor | None = None  # (B, D) one vector for the whole input, where the model makes one
    of_head: Mapping[str, Tensor | Scores] = field(default_factory=dict)  # by name, where there are several heads

    def __post_init__(self) -> None:
        if not torch.is_grad_enabled():  # only training can use the pieces
            self.scores = _dense(self.scores)

    @cached_property
    def logits(self) -> Tensor:
        return _dense(self.scores)

    @cached_property
    def heads(self) -> dict[str, Tensor]:
        """Logits by the name of the head, where there are several."""
        return {name: _dense(scores) for name, scores in self.of_head.items()}


def _dense(scores: Tensor | Scores) -> Tensor:
    return scores.dense() if isinstance(scores, Scores) else scores


Problem = Literal["single_label_classification", "multi_label_classification", "regression"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What is not architecture: the layout on disk, the vocabulary and its special tokens, the labels."""

    layout: str
    "Hugging Face's name of the layout that the model is saved in (`model_type`)."
    vocab_size: int = 32_000
    pad_id: int | None = None
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    "Any of these ends a text."
    start_id: int | None = None
    "What an encoder-decoder's output starts with."
    labels: tuple[str, ...] = ()
    "Names of the classes, for heads that classify."
    problem: Problem | None = None
    "What the scores of the labels mean (`problem_type`); as `labelling` says where absent."

    @property
    def labelling(self) -> Problem:
        """One label is a value to be measured, of several one is right: so transformers takes it."""
        return self.problem or ("regression" if len(self.labels) == 1 else "single_label_classification")

    def filled(self) -> dict[str, Any]:
        """All fields, with what the absent ones stand for."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class TextConfig(StackConfig, ModelConfig):
    """A stack that reads or writes tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.vocab_size <= 2**31, f"vocab_size is {self.vocab_size}", "expected a positive number")


class _Unfilled(TorchFunctionMode):
    """Fresh weights are left as they are: to fill them without memory, torch imports its compiler for two seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if getattr(func, "__module__", "") == "torch.nn.init" else func(*args, **(kwargs or {}))


@contextmanager
def without_memory() -> Iterator[None]:
    """Models built here have shapes and no weights, so any size costs nothing."""
    with torch.device("meta"), _Unfilled():
        yield


class Model(nn.Module):
    """A torch module that knows its configuration."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def parts(self) -> "Mapping[str, Model]":
        """What is saved, by the name of its folder: itself, or several where several are trained together."""
        return {"": self}

    @property
    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def fuse(self) -> Self:
        """For reading and writing only: fewer and larger products, the same numbers. Not to be trained or saved."""
        require_plain(self)
        for module in self.modules():
            if isinstance(module, Block):
                module.fuse()
        exact, writes = False, hasattr(self, "step")
        for module in self.modules():
            if isinstance(weight := getattr(module, "weight", None), ShortWeight):
                weight.pack(getattr(module, "bias", None), many_rows=not writes)
                exact |= weight.exact
        for module in self.modules():
            if isinstance(module, Stack):
                module.quicken(exact=exact and writes)  # one letter more or less makes another text
        return_memory()
        return self


@torch.no_grad()
def initialise(model: nn.Module, scheme: Literal["normal", "xavier", "t5"] = "normal", std: float = 0.02) -> None:
    """Fresh weights: `normal` as in BERT and GPT-2, `xavier` as in 2017 (embeddings then have deviation D^-0.5), `t5`
    by the width of what comes in, and the token table as wide as what it is added to."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            if scheme == "xavier":
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5 if scheme == "t5" else std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            wide = {"normal": std, "xavier": module.embedding_dim**-0.5, "t5": 1.0}
            nn.init.normal_(module.weight, std=wide[scheme])
    for module in model.modules() if scheme == "t5" else ():
        if isinstance(module, MultiHeadAttention):
            module.q.weight *= module.d_head**-0.5  # in the place of the scale that T5's attention lacks
        elif isinstance(module, RelativeBias):
            nn.init.normal_(module.table.weight, std=std)
