"""Sentence pairs: loss on all validation pairs, BLEU and chrF on greedy translations of some."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from regard.data.corpus import Row
from regard.data.examples import Texts
from regard.data.pairs import PairBatch, collate
from regard.data.shards import Shards
from regard.decoding.search import DONE, greedy
from regard.evaluation.translation import bleu, chrf
from regard.models.base import Model
from regard.objectives.seq2seq import Seq2Seq
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import BATCH_TOKENS, Job, Validation, mean_loss
from regard.training.ranks import Ranks
from regard.training.sources import Sources


class Translation(Job):
    head, purpose = "", "translation"
    n_texts = 2
    measured = ("BLEU", "chrF")

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        data, train = config.data, config.train
        self.examples = Texts([tokenizer, tokenizer], data.max_len, data.too_long)
        self.objective = Seq2Seq(train.label_smoothing, train.teacher_forcing)
        assert tokenizer.pad_id is not None, "a translation starts from padding"
        self.pad_id: int = tokenizer.pad_id
        self._pairs: list[Row] | None = None

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> PairBatch:
        return collate(shards, rows, pad_id=self.pad_id, start_id=self.pad_id)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        objective = Seq2Seq(label_smoothing=0.0)

        def reading(batch: PairBatch) -> tuple[float, int]:
            loss = objective(model, batch)
            return float(loss.total), loss.count

        mean = mean_loss(self.read(shards, ranks, reading))
        if self._pairs is None:
            limit = self.config.valid.sentences
            self._pairs = ranks.first("reading data.valid", lambda: Sources(self.config).pairs("valid", limit))
        pairs = self._pairs
        texts = ranks.merge(translate_texts(model, [pair[0] for pair in ranks.share(pairs)], self.tokenizer))
        if not texts:
            return Validation(mean)
        references = [pair[1] for pair in pairs]
        return Validation(mean, (bleu(texts, references), chrf(texts, references)), tuple(texts[:3]))


@torch.inference_mode()
def translate_texts(model: Any, texts: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """Greedy translations, in order; alike lengths go together."""
    rows = [ids[: model.config.max_len] for ids in tokenizer.encode_ids(list(texts))]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]), reverse=True)
    results = [""] * len(rows)
    while order:
        size = max(1, BATCH_TOKENS // len(rows[order[0]]) // 2)
        batch, order = order[:size], order[size:]
        for i, text in zip(batch, _greedy_texts(model, [rows[i] for i in batch], tokenizer), strict=True):
            results[i] = text
    return results


def _greedy_texts(model: Any, rows: list[list[int]], tokenizer: Tokenizer) -> list[str]:
    width = max(map(len, rows))
    device = model.device
    src = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=device)  # (B, S)
    valid = torch.tensor([[True] * len(row) + [False] * (width - len(row)) for row in rows], device=device)
    limit = 2 * width + 10
    state = model.new_state(model.encode(src, valid), valid, limit + 1)
    first = torch.full((len(rows), 1), model.config.start_id, device=device)

    def step(ids: torch.Tensor, state: Any, valid: torch.Tensor | None) -> torch.Tensor:
        scores = model.step(ids, state, valid)
        scores[:, model.config.pad_id] = -torch.inf  # padding is no word
        return scores

    written = list(greedy(step, state, first, limit=limit, end_ids=model.config.eos_ids))
    ids = torch.stack(written, dim=1).tolist()
    return [tokenizer.decode([token for token in row if token != DONE]) for row in ids]
