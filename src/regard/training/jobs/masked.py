"""Hidden words to be found: the share that the model's first guess finds, and how sure it is."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.config import require
from regard.data.examples import Texts
from regard.data.masked import MaskedBatch, Masking
from regard.data.shards import Shards
from regard.evaluation.language import perplexity
from regard.evaluation.score import Score
from regard.models.base import Model
from regard.objectives.loss import cross_entropy
from regard.objectives.masked import Masked
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.ranks import Ranks


class MaskedWords(Job):
    head, purpose = "masked_lm", "masked"
    n_texts = 1
    measured = ("top-1",)

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        around, longest = len(tokenizer.encode("").ids), config.data.max_len
        found = f"data.max_len is {longest}, and {around} tokens stand around each text"
        require(longest > around, found, "raise it: what is hidden is one of the others")
        self.examples = Texts([tokenizer], config.data.max_len, config.data.too_long)
        self.objective, self.masking = Masked(), Masking(tokenizer, whole_words=config.data.whole_words)

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> MaskedBatch:
        return self.masking(shards, rows, key=key)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        def reading(batch: MaskedBatch) -> dict[str, Any]:
            logits = model(batch.ids, batch.valid, at=batch.at).logits  # (N, V)
            loss = float(cross_entropy(logits, batch.targets, None, 0.0))
            return {"loss": (loss, batch.n_targets), "found": int((logits.argmax(-1) == batch.targets).sum())}

        every = self.read(shards, ranks, reading)
        losses = [each["loss"] for each in every]
        count = sum(n for _, n in losses)
        top = Score("top-1", 100 * sum(each["found"] for each in every) / max(count, 1), "masked:0.15")
        return Validation(mean_loss(losses), (top, perplexity(sum(loss for loss, _ in losses), count)))
