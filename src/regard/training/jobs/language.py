"""Texts to be continued: how well each token is foreseen from those before it."""

from collections.abc import Mapping

import numpy as np

from regard.data.language import Documents, TextBatch, collate_text
from regard.data.shards import Shards
from regard.evaluation.language import perplexity
from regard.models.base import Model
from regard.objectives.causal import Causal
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.ranks import Ranks


class Language(Job):
    head, purpose, unit = "language_model", "causal", "tokens"

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples = Documents(tokenizer, config.data.max_len)
        self.objective = Causal(config.train.label_smoothing)
        self.pad_id = tokenizer.pad_id or 0

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> TextBatch:
        return collate_text(shards, rows, pad_id=self.pad_id)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        objective = Causal()

        def reading(batch: TextBatch) -> tuple[float, int]:
            loss = objective(model, batch)
            return float(loss.total), loss.count

        sums = self.read(shards, ranks, reading)
        mean = mean_loss(sums)
        return Validation(mean, (perplexity(sum(x for x, _ in sums), sum(n for _, n in sums)),), goodness=-mean)
