"""BERT's own training: hidden words in two texts, and whether the second follows the first."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.data.chunks import Chunks
from regard.data.masked import MaskedBatch
from regard.data.sentence_pairs import AROUND, SentencePairs
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


class Pretraining(Job):
    head, purpose = "pre_training", "masked"
    n_texts = 1

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples = Chunks(tokenizer, config.data.max_len - AROUND)
        self.objective, self.pairs = Masked(), SentencePairs(tokenizer, whole_words=config.data.whole_words)

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> MaskedBatch:
        return self.pairs(shards, rows, key=key)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        def reading(batch: MaskedBatch) -> dict[str, Any]:
            heads = model(batch.ids, batch.valid, segments=batch.segments, at=batch.at).heads
            words, follows = heads["masked_lm"], heads["next_sentence"]  # (N, V), (B, 2)
            return {
                "loss": (float(cross_entropy(words, batch.targets, None, 0.0)), batch.n_targets),
                "found": int((words.argmax(-1) == batch.targets).sum()),
                "right": (follows.argmax(-1) == batch.apart).tolist(),
            }

        every = self.read(shards, ranks, reading)
        losses = [each["loss"] for each in every]
        count, right = sum(n for _, n in losses), [each for found in every for each in found["right"]]
        scores = (
            Score("top-1", 100 * sum(each["found"] for each in every) / max(count, 1), "masked:0.15"),
            Score("next-sentence", 100 * sum(right) / max(len(right), 1), "accuracy"),
            perplexity(sum(loss for loss, _ in losses), count),
        )
        return Validation(mean_loss(losses), scores)
