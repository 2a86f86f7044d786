"""Where an answer starts and where it ends, each a choice among the tokens of the context."""

import torch
from torch.nn import functional

from regard.data.answered import AnswerBatch
from regard.models.base import Model
from regard.objectives.classify import read
from regard.objectives.loss import Loss


class Answer:
    def __call__(self, model: Model, batch: AnswerBatch) -> Loss:
        logits = read(model, batch).logits.float()  # (B, T, 2)
        logits = logits.masked_fill(~batch.open[..., None], -torch.inf)
        losses = functional.cross_entropy(logits, batch.spans, reduction="none").mean(-1)  # (B)
        return Loss((losses * batch.weights).sum(), batch.n_targets)
