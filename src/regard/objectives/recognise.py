"""A label for a picture, learnt from the label itself and from a teacher (Touvron et al. 2021, section 4)."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.data.images import ImageBatch
from regard.models.base import Model
from regard.objectives.loss import Loss


@dataclass(frozen=True)
class Recognise:
    label_smoothing: float = 0.0
    teacher: Any = None
    "Another model, which sees the same pictures; without one both heads of a DeiT learn the label."
    distil: Literal["hard", "soft"] = "hard"
    temperature: float = 3.0

    def __call__(self, model: Model, batch: ImageBatch) -> Loss:
        found = model(batch.pixels)
        own = found.heads.get("classify", found.logits).float()  # (B, labels)
        losses = functional.cross_entropy(own, batch.labels, label_smoothing=self.label_smoothing, reduction="none")
        if self.teacher is not None or "distil" in found.heads:
            losses = (losses + self.taught(found.heads.get("distil", own).float(), batch)) / 2
        return Loss((losses * batch.weights).sum(), batch.n_targets)

    def taught(self, pupil: Tensor, batch: ImageBatch) -> Tensor:
        """(B) how far the pupil is from the teacher, label or likelihoods."""
        if self.teacher is None:
            smoothing = self.label_smoothing
            return functional.cross_entropy(pupil, batch.labels, label_smoothing=smoothing, reduction="none")
        with torch.no_grad():
            said = self.teacher(batch.pixels).logits.float()  # (B, labels)
        if self.distil == "hard":
            return functional.cross_entropy(pupil, said.argmax(-1), reduction="none")
        t = self.temperature
        theirs, ours = (each.div(t).log_softmax(-1) for each in (said, pupil))
        return functional.kl_div(ours, theirs, reduction="none", log_target=True).sum(-1) * t**2
