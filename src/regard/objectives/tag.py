"""A tag for each word."""

from torch.nn import functional

from regard.data.tagged import TaggedBatch
from regard.models.base import Model
from regard.objectives.loss import Loss


class Tag:
    def __call__(self, model: Model, batch: TaggedBatch) -> Loss:
        logits = model(batch.ids, batch.valid, at=batch.at).logits.float()  # (N, tags)
        return Loss(functional.cross_entropy(logits, batch.targets, reduction="sum"), batch.n_targets)
