"""Language modelling: predict each token from those before it."""

from dataclasses import dataclass
from typing import Any

from regard.data.language import TextBatch
from regard.models.base import Model
from regard.objectives.loss import Loss, word_loss


@dataclass(frozen=True)
class Causal:
    label_smoothing: float = 0.0

    def __call__(self, model: Model, batch: TextBatch) -> Loss:
        told: dict[str, Any] = {} if batch.documents is None else {"documents": batch.documents}
        if n_before := batch.ids_in.size(1) - batch.ids_out.size(1):
            told["n_before"] = n_before
        scores = model(batch.ids_in, **told).scores  # (B, T, V); padded on the right, where no real token may look
        return Loss(word_loss(scores, batch.ids_out, batch.valid, self.label_smoothing), batch.n_targets)
