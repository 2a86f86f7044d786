"""Words in context: two language models, one for each direction, and how well they foresee."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import torch

from regard.data.corpus import Row
from regard.data.language import Documents, TextBatch, collate_text
from regard.data.noise import Noise, counts_of
from regard.data.shards import Shards
from regard.data.shuffle import chances
from regard.errors import UserError
from regard.evaluation.language import perplexity
from regard.models.base import Model, without_memory
from regard.objectives.both_ways import BothWays
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.model import blank_model
from regard.training.ranks import Ranks


class WordsInContext(Job):
    head, purpose, unit = "two_way_lm", "words", "tokens"
    noise: Noise | None = None
    drawn = 0

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples, self.objective = Documents(tokenizer, config.data.max_len), BothWays()
        self.pad_id = tokenizer.pad_id or 0

    def meet(self, train: Shards) -> None:
        with without_memory():  # its configuration alone
            drawn = blank_model(self.config, self.head, self.tokenizer, ()).config.drawn
        if 0 < drawn < self.tokenizer.vocab_size:
            self.noise, self.drawn = Noise(counts_of(train, self.tokenizer.vocab_size)), drawn

    @classmethod
    def labels_in(cls, rows: Iterable[Row], config: RunConfig) -> dict[str, int]:
        if any(len(row) != 1 for row in rows):
            raise UserError("a row has several columns", "name that of the text in data.columns")
        return {}

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> TextBatch:
        batch = collate_text(shards, rows, pad_id=self.pad_id)
        if self.noise is None:
            return batch
        drawn = self.noise.draw(chances(key, np.zeros(1), self.drawn)[0])  # (K)
        expected = (self.noise.shares[drawn] * self.drawn).astype(np.float32)
        return replace(batch, drawn=torch.from_numpy(drawn), expected=torch.from_numpy(expected))

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        def reading(batch: TextBatch) -> tuple[float, int]:
            loss = self.objective(model, batch)
            return float(loss.total), loss.count

        sums = self.read(shards, ranks, reading)
        mean = mean_loss(sums)
        return Validation(mean, (perplexity(sum(x for x, _ in sums), sum(n for _, n in sums)),), goodness=-mean)
