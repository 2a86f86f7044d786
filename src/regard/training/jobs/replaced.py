"""ELECTRA's training: how well the generator guesses, and how well the discriminator finds what it wrote."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.data.chunks import Chunks
from regard.data.masked import MaskedBatch, Masking, around
from regard.data.shards import Shards
from regard.evaluation.classification import accuracy, f1
from regard.evaluation.score import Score
from regard.models.base import Model
from regard.objectives.replaced import Replaced, read
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.ranks import Ranks


class ReplacedTokens(Job):
    head, purpose = "replaced_token", "masked"
    n_texts = 1

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.objective, self.masking = Replaced(), Masking(tokenizer, whole_words=config.data.whole_words)
        self.examples = Chunks(tokenizer, config.data.max_len - 2)

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> MaskedBatch:
        return self.masking.hide(*around(shards, rows, self.tokenizer), rows, key)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        def reading(batch: MaskedBatch) -> dict[str, Any]:
            found, loss = read(model, batch), self.objective(model, batch)
            real = slice(None) if batch.valid is None else batch.valid
            assert batch.original is not None
            return {
                "loss": (float(loss.total), loss.count),
                "hits": int((found.guess.logits.argmax(-1) == batch.targets).sum()),
                "given": (found.verdict.logits > 0)[real].flatten().tolist(),
                "right": (found.replaced != batch.original)[real].flatten().tolist(),
            }

        every = self.read(shards, ranks, reading)
        given, right = ([value for each in every for value in each[side]] for side in ("given", "right"))
        losses = [each["loss"] for each in every]
        hits = 100 * sum(each["hits"] for each in every) / max(sum(n for _, n in losses), 1)
        scores = (f1(given, right, positive=True), accuracy(given, right), Score("top-1", hits, "generator"))
        mean = mean_loss(losses)
        return Validation(mean, scores, goodness=-mean)
