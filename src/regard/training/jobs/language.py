"""Texts to be continued: how well each token is foreseen from those before it."""

from collections.abc import Mapping

import numpy as np

from regard.data.examples import Examples
from regard.data.language import Documents, TextBatch, collate_text
from regard.data.shards import Shards
from regard.data.stream import Joined, Windows, collate_windows
from regard.evaluation.language import nats_per_character, perplexity
from regard.models.base import Model
from regard.objectives.causal import Causal
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation
from regard.training.ranks import Ranks


class Language(Job):
    head, purpose, unit = "language_model", "causal", "tokens"

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples: Examples = Documents(tokenizer, config.data.max_len)
        if config.data.pack != "no":
            self.examples = Joined(tokenizer, whole=config.data.pack == "rows")
        self.objective = Causal(config.train.label_smoothing)
        self.pad_id = tokenizer.pad_id or 0

    def arranged(self, shards: Shards, which: str) -> Shards:
        data = self.config.data
        if data.pack == "no":
            return shards
        return Windows(shards, data.max_len, moving=which == "train", memory=data.memory)

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> TextBatch:
        if isinstance(shards, Windows):
            return collate_windows(shards, rows, key, self.tokenizer)
        return collate_text(shards, rows, pad_id=self.pad_id)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        objective = Causal()

        def reading(batch: TextBatch) -> tuple[float, int, int]:
            loss = objective(model, batch)
            texts = (ids[real].tolist() for ids, real in zip(batch.ids_out, batch.valid, strict=True))
            return float(loss.total), loss.count, sum(len(self.tokenizer.decode(ids)) for ids in texts)

        total, count, letters = map(sum, zip(*self.read(shards, ranks, reading), strict=True))
        mean = total / max(count, 1)
        return Validation(mean, (perplexity(total, count), nats_per_character(total, max(letters, 1))), goodness=-mean)
