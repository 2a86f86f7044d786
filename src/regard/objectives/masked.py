"""Find the hidden words; and, where there are two texts, say whether the second follows (Devlin et al. 2018).

BERT adds the mean over hidden words to the mean over pairs. Here a pair counts as much as it has hidden words, so one
count serves both and the sum does not ask how a step was cut into parts.
"""

from torch.nn import functional

from regard.data.masked import MaskedBatch
from regard.models.base import Model
from regard.objectives.loss import Loss, word_loss


class Masked:
    def __call__(self, model: Model, batch: MaskedBatch) -> Loss:
        told = {} if batch.segments is None else {"segments": batch.segments}
        found = model(batch.ids, batch.valid, at=batch.at, **told)
        total = word_loss(found.scores, batch.targets, None, label_smoothing=0.0)  # scores (N, V)
        if batch.apart is not None:
            follows = found.of_head["next_sentence"].float()  # (B, 2)
            losses = functional.cross_entropy(follows, batch.apart, reduction="none")
            total = total + (losses * batch.at.sum(1)).sum()
        return Loss(total, batch.n_targets)
