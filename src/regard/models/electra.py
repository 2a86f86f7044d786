"""ELECTRA (Clark et al. 2020): a small generator fills masked words in, a discriminator says which were replaced.

Both are BERTs. They are trained together and share the token table; the discriminator is what one keeps.
"""

from dataclasses import dataclass

from torch import Tensor

from regard.config import require
from regard.models.base import Model, Output
from regard.models.bert import Bert, BertConfig


@dataclass(frozen=True, kw_only=True)
class ElectraConfig:
    generator: BertConfig
    discriminator: BertConfig

    def __post_init__(self) -> None:
        one, other = ((half.vocab_size, half.d_embed or half.d_model) for half in (self.generator, self.discriminator))
        require(one == other, f"the halves share one token table, but the generator's is {one}, the other's {other}")


class Electra(Model):
    """The pair, for pre-training; each half is saved as a directory of its own."""

    config: ElectraConfig

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__(config)
        self.generator = Bert(config.generator)
        self.discriminator = Bert(config.discriminator)
        self.generator.encoder.embed.token = self.discriminator.encoder.embed.token

    def forward(self, masked: Tensor, replaced: Tensor, valid: Tensor | None = None) -> tuple[Output, Output]:
        """Scores of the generator for `masked` and of the discriminator for `replaced`, both (B, T) ids."""
        return self.generator(masked, valid), self.discriminator(replaced, valid)
