"""Find the hidden words: the half of BERT's training that the others kept."""

from regard.data.masked import MaskedBatch
from regard.models.base import Model
from regard.objectives.loss import Loss, word_loss


class Masked:
    def __call__(self, model: Model, batch: MaskedBatch) -> Loss:
        scores = model(batch.ids, batch.valid, at=batch.at).scores  # (N, V)
        return Loss(word_loss(scores, batch.targets, None, label_smoothing=0.0), batch.n_targets)
