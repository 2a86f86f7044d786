"""ELECTRA (Clark et al. 2020): a small generator fills masked words in, a discriminator says which were replaced.

Both are BERTs. They are trained together and share the token table; the discriminator is what one keeps.
"""

from dataclasses import dataclass, field, replace

from torch import Tensor

from regard.models.base import Model, Output
from regard.models.bert import Bert, BertConfig

GENERATOR = BertConfig(
    layout="electra", d_embed=128, d_model=64, n_heads=1, d_ff=256, n_layers=12, pooler=None, heads=("masked_lm",)
)
DISCRIMINATOR = replace(GENERATOR, d_model=256, n_heads=4, d_ff=1024, heads=("replaced_token",))

PRESETS: dict[str, BertConfig] = {
    "electra-small": DISCRIMINATOR,
    "electra-small-generator": GENERATOR,
    "electra-base": replace(DISCRIMINATOR, d_embed=768, d_model=768, n_heads=12, d_ff=3072),
    "electra-base-generator": replace(GENERATOR, d_embed=768, d_model=256, n_heads=4, d_ff=1024),
    "electra-large": replace(DISCRIMINATOR, d_embed=1024, d_model=1024, n_heads=16, d_ff=4096, n_layers=24),
}


@dataclass(frozen=True, kw_only=True)
class ElectraConfig:
    generator: BertConfig = field(default=GENERATOR)
    discriminator: BertConfig = field(default=DISCRIMINATOR)


class Electra(Model):
    """The pair, for pre-training; each half is saved as a directory of its own."""

    config: ElectraConfig

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.config = config
        self.generator = Bert(config.generator)
        self.discriminator = Bert(config.discriminator)
        self.generator.encoder.embed.token = self.discriminator.encoder.embed.token

    def forward(self, masked: Tensor, replaced: Tensor, valid: Tensor | None = None) -> tuple[Output, Output]:
        """Scores of the generator for `masked` and of the discriminator for `replaced`, both (B, T) ids."""
        return self.generator(masked, valid), self.discriminator(replaced, valid)
