"""T5's training: spans that were taken out of a text, to be written."""

from collections.abc import Mapping

import numpy as np

from regard.data.chunks import Chunks
from regard.data.corruption import Corruption
from regard.data.pairs import PairBatch
from regard.data.shards import Shards
from regard.evaluation.language import perplexity
from regard.models.base import Model
from regard.objectives.seq2seq import Seq2Seq
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.ranks import Ranks


class Spans(Job):
    head, purpose = "", "spans"
    n_texts = 1

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples, self.corruption = Chunks(tokenizer, config.data.max_len - 1), Corruption(tokenizer)
        self.objective = Seq2Seq(config.train.label_smoothing)

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> PairBatch:
        return self.corruption(shards, rows, key=key)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        objective = Seq2Seq(0.0)

        def reading(batch: PairBatch) -> tuple[float, int]:
            loss = objective(model, batch)
            return float(loss.total), loss.count

        sums = self.read(shards, ranks, reading)
        mean = mean_loss(sums)
        score = perplexity(sum(total for total, _ in sums), sum(count for _, count in sums))
        return Validation(mean, (score,), goodness=-mean)
