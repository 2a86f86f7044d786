"""ELECTRA (Clark et al. 2020): a small generator fills masked words in, a discriminator says which were replaced.

Both are BERTs. They are trained together and share the token table; the discriminator is what one keeps.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.config import require
from regard.models.base import Model, Output
from regard.models.bert import Bert, BertConfig

SHARED = "encoder.embed.token.weight"


@dataclass(frozen=True, kw_only=True)
class ElectraConfig:
    generator: BertConfig
    discriminator: BertConfig

    def __post_init__(self) -> None:
        one, other = ((half.vocab_size, half.d_embed or half.d_model) for half in (self.generator, self.discriminator))
        require(one == other, f"the halves share one token table, but the generator's is {one}, the other's {other}")


@dataclass(frozen=True)
class ElectraOutput:
    guess: Output
    "Of the generator, for the hidden tokens."
    replaced: Tensor  # (B, T)
    "The text with what the generator put in their place."
    verdict: Output
    "Of the discriminator, for every token."


class Electra(Model):
    """The pair, for pre-training; each half is saved as a directory of its own."""

    config: ElectraConfig

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        self.discriminator = Bert(config.discriminator)
        self.generator = Bert(config.generator)
        self.generator.encoder.embed.token = self.discriminator.encoder.embed.token
        self.register_state_dict_post_hook(_without_copy)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_with_copy)  # type: ignore[no-untyped-call]

    @property
    def parts(self) -> dict[str, Model]:
        return {"generator": self.generator, "discriminator": self.discriminator}

    def forward(
        self, masked: Tensor, original: Tensor, at: Tensor, draws: Tensor, valid: Tensor | None = None
    ) -> ElectraOutput:
        """`masked` and `original` ids (B, T); `at` (B, T) True where a token is hidden; `draws` (N) choose what the
        generator puts there: each is a place from 0 to 1 in the sum of its probabilities."""
        guess = self.generator(masked, valid, at=at)
        with torch.no_grad():  # nothing flows back through a choice
            sums = Output(guess.scores, guess.hidden).logits.float().softmax(-1).cumsum(-1)  # (N, V)
            chosen = (sums < draws[:, None] * sums[:, -1:]).sum(-1).clamp(max=sums.size(-1) - 1)
            replaced = original.masked_scatter(at, chosen)
        return ElectraOutput(guess, replaced, self.discriminator(replaced, valid))


def _without_copy(module: Any, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """One tensor has one name in a file."""
    state.pop(f"{prefix}generator.{SHARED}", None)


def _with_copy(module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    if (table := state.get(f"{prefix}discriminator.{SHARED}")) is not None:
        state[f"{prefix}generator.{SHARED}"] = table
