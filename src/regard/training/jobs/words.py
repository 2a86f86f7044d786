"""Word vectors: each word told from drawn ones by the company it keeps."""

from collections.abc import Mapping

import numpy as np

from regard.config import require
from regard.data.company import Company, CompanyBatch, KnownWords
from regard.data.noise import counts_of
from regard.data.shards import Shards
from regard.models.base import Model, without_memory
from regard.objectives.company import NegativeSampling
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.model import blank_model
from regard.training.ranks import Ranks

LEAST_KEPT = 1e-3
"Where fewer words are left of a text, none has another one near it."


class Words(Job):
    head, purpose, unit = "context", "words", "targets"
    n_texts = 1
    company: Company

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples, self.objective = KnownWords(tokenizer, config.data.max_len), NegativeSampling()

    def meet(self, train: Shards) -> None:
        with without_memory():  # its configuration alone
            model = blank_model(self.config, self.head, self.tokenizer, ()).config
        self.company = Company(
            counts_of(train, self.tokenizer.vocab_size), model.window, model.negatives, model.drawn, model.subsample,
            by_pairs=model.kind == "skip_gram", pad_id=self.tokenizer.pad_id or 0,
        )  # fmt: skip
        share = float(self.company.kept @ self.company.counts / self.company.counts.sum())
        left = f"model.subsample = {model.subsample:g} leaves {share:.2g} of all words"
        require(share >= LEAST_KEPT, left, "raise it (1e-3 is usual), or 0 to leave out none")

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> CompanyBatch:
        return self.company(shards, rows, key=key)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        def reading(batch: CompanyBatch) -> tuple[float, int]:
            loss = self.objective(model, batch)
            return float(loss.total), loss.count

        return Validation(mean_loss(self.read(shards, ranks, reading)))
