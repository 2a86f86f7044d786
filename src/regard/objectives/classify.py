"""One label, or one number, for a whole text."""

from typing import Any

from torch import Tensor
from torch.nn import functional

from regard.data.labelled import LabelledBatch
from regard.models.base import Model
from regard.objectives.loss import Loss


def read(model: Model, batch: Any, **more: Tensor) -> Any:
    """Only models that tell two texts apart are told which is which."""
    told = {} if batch.segments is None else {"segments": batch.segments}
    return model(batch.ids, batch.valid, **told, **more)


class Classify:
    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def __call__(self, model: Model, batch: LabelledBatch) -> Loss:
        return self.of(read(model, batch).logits.float(), batch)

    def of(self, logits: Tensor, batch: LabelledBatch) -> Loss:
        """From logits (B, labels): cross-entropy, or where the targets are numbers the square of the error."""
        if batch.labels.is_floating_point():
            losses = (logits[:, 0] - batch.labels).square()
        else:
            losses = functional.cross_entropy(
                logits, batch.labels, label_smoothing=self.label_smoothing, reduction="none"
            )
        return Loss((losses * batch.weights).sum(), batch.n_targets)
