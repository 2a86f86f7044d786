"""Tell what a generator put in the place of hidden words from what stood there (Clark et al. 2020, section 2)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from regard.data.masked import MaskedBatch
from regard.models.base import Model
from regard.models.electra import ElectraOutput
from regard.objectives.loss import Loss, word_loss


@dataclass(frozen=True)
class Replaced:
    """The generator learns from the hidden words, the discriminator from every token.

    A row's mean over its tokens counts as much as it has hidden words: one count serves both (objectives/masked.py).
    """

    weight: float = 50.0
    "Of the discriminator, whose loss is so much smaller."

    def __call__(self, model: Model, batch: MaskedBatch) -> Loss:
        found = read(model, batch)
        words = word_loss(found.guess.scores, batch.targets, None, label_smoothing=0.0)
        return Loss(words + self.weight * self.verdicts(found, batch), batch.n_targets)

    def verdicts(self, found: ElectraOutput, batch: MaskedBatch) -> Tensor:
        assert batch.original is not None
        truth = found.replaced.ne(batch.original).float()
        losses = functional.binary_cross_entropy_with_logits(found.verdict.logits.float(), truth, reduction="none")
        real = torch.ones_like(losses) if batch.valid is None else batch.valid.float()  # (B, T)
        return ((losses * real).sum(1) / real.sum(1) * batch.at.sum(1)).sum()


def read(model: Model, batch: MaskedBatch) -> ElectraOutput:
    found: ElectraOutput = model(batch.ids, batch.original, batch.at, batch.draws, batch.valid)
    return found
