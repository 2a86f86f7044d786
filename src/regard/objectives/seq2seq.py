"""Translation: predict each target word from the source and the words before it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.pairs import PairBatch
from regard.models.base import Model
from regard.objectives.loss import Loss, word_loss


@dataclass(frozen=True)
class Seq2Seq:
    label_smoothing: float = 0.1
    teacher_forcing: float = 1.0
    "Probability that the decoder is shown the true word before, and not the one it would have written itself."

    def __call__(self, model: Model, batch: PairBatch) -> Loss:
        shown = batch.tgt_in
        if self.teacher_forcing < 1.0 and model.training:
            shown = self.mix(model, batch)
        # targets are padded on the right, where no real token may look: the decoder needs no mask for it
        scores = model(batch.src, shown, batch.src_valid).scores  # (B, T, V)
        return Loss(word_loss(scores, batch.tgt_out, batch.tgt_valid, self.label_smoothing), batch.n_targets)

    @torch.no_grad()
    def mix(self, model: Model, batch: PairBatch) -> Tensor:
        """Two passes instead of a loop over time (Mihaylova and Martins 2019): the first says what would be written."""
        written = model(batch.src, batch.tgt_in, batch.src_valid).logits.argmax(-1)  # (B, T)
        own = torch.cat([batch.tgt_in[:, :1], written[:, :-1]], dim=1)  # the start is always given
        truth = torch.rand(own.shape, device=own.device) < self.teacher_forcing
        return torch.where(truth, batch.tgt_in, own)
