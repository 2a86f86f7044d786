"""Negative sampling: a word's company is told from words that were drawn (Mikolov et al. 2013b, equation 4)."""

from torch.nn import functional

from regard.data.company import CompanyBatch
from regard.models.base import Model
from regard.objectives.loss import Loss


class NegativeSampling:
    def __call__(self, model: Model, batch: CompanyBatch) -> Loss:
        scores = model(batch.ids, near=batch.near, negatives=batch.negatives).of_head
        true, drawn = scores["near"].float(), scores["far"].float()
        asked = batch.near if true.dim() == 3 else batch.near.any(-1)  # pairs, or words
        total = functional.softplus(-true)[asked].sum() + (functional.softplus(drawn) * batch.weights).sum()
        return Loss(total, batch.n_targets)
