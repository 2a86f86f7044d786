"""Two language models at once: the word after and the word before each place (Peters et al. 2018, equation 1)."""

from typing import Any

import torch
from torch import Tensor

from regard.data.language import TextBatch
from regard.layers.head import Scores
from regard.models.base import Model
from regard.objectives.loss import Loss, sampled_cross_entropy, word_loss


class BothWays:
    def __call__(self, model: Model, batch: TextBatch) -> Loss:
        """The mean of the two directions, so that the loss of a word is as large as in one language model."""
        ids = torch.cat([batch.ids_in[:, :1], batch.ids_out], dim=1)  # (B, 1 + T)
        real = torch.cat([torch.ones_like(batch.valid[:, :1]), batch.valid], dim=1)
        scores = model(ids, real).of_head
        ahead = _loss(_places(scores["ahead"], slice(None, -1)), batch.ids_out, batch)
        back = _loss(_places(scores["back"], slice(1, None)), batch.ids_in, batch)
        return Loss((ahead + back) / 2, batch.n_targets)


def _loss(scores: Any, targets: Tensor, batch: TextBatch) -> Tensor:
    """By the words drawn for the batch; by all words where there are none, or where no gradient is wanted."""
    if batch.drawn is None or batch.expected is None or not isinstance(scores, Scores):
        return word_loss(scores, targets, batch.valid, 0.0)
    return sampled_cross_entropy(scores, targets, batch.valid, batch.drawn, batch.expected)


def _places(scores: Any, places: slice) -> Any:
    if isinstance(scores, Scores):
        return Scores(scores.x[:, places], scores.weight, scores.bias)
    return scores[:, places]
