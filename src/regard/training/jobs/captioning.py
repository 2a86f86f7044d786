"""Pictures with a caption: loss on all, exact match on greedy captions of some."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.examples import Texts
from regard.data.images import CaptionedPictures, collate_captions
from regard.data.pairs import PairBatch
from regard.data.shards import Shards
from regard.decoding.search import DONE, greedy
from regard.evaluation.captions import exact
from regard.models.base import Model
from regard.objectives.seq2seq import Seq2Seq
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.jobs.recognition import augment_of, view_of
from regard.training.ranks import Ranks


class Captioning(Job):
    head, purpose = "", "translation"
    n_texts = 2
    budget = 2_000
    measured = ("exact-match",)

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        data, train = config.data, config.train
        self.view, self.augment = view_of(config), augment_of(config)
        self.examples = CaptionedPictures(self.view, Texts([tokenizer], data.max_len, data.too_long))
        self.objective = Seq2Seq(train.label_smoothing, train.teacher_forcing)
        assert tokenizer.pad_id is not None, "a caption starts from padding"
        self.pad_id: int = tokenizer.pad_id

    @classmethod
    def texts_in(cls, row: tuple[str, ...]) -> tuple[str, ...]:
        return row[1:2]

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> PairBatch:
        change = partial(self.augment, rows=rows, key=key)
        return collate_captions(shards, rows, view=self.view, pad_id=self.pad_id, change=change)

    def still(self, shards: Shards, rows: np.ndarray) -> PairBatch:
        return collate_captions(shards, rows, view=self.view, pad_id=self.pad_id, change=None)

    def save_beside(self, folder: Path) -> None:
        super().save_beside(folder)
        self.view.save(folder)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        objective, left = Seq2Seq(label_smoothing=0.0), self.config.valid.sentences

        def reading(batch: PairBatch) -> dict[str, Any]:
            nonlocal left
            loss = objective(model, batch)
            rows = batch.tgt_out[: max(0, left)]
            left -= len(rows)
            right = [self.tokenizer.decode(ids[at].tolist()) for ids, at in zip(rows, batch.tgt_valid, strict=False)]
            said = self._captions(model, batch.src[: len(rows)]) if len(rows) else []
            return {"loss": (float(loss.total), loss.count), "said": said, "right": right}

        found = self.read(shards, ranks, reading)
        said, right = ([text for each in found for text in each[side]] for side in ("said", "right"))
        scores = (exact(said, right),) if said else ()
        return Validation(mean_loss(each["loss"] for each in found), scores, tuple(said[:3]))

    def _captions(self, model: Any, pixels: torch.Tensor) -> list[str]:
        limit = self.config.data.max_len
        state = model.new_state(model.encode(pixels), None, limit + 1)
        first = torch.full((len(pixels), 1), model.config.start_id, device=pixels.device)

        def step(ids: torch.Tensor, state: Any, valid: torch.Tensor | None) -> torch.Tensor:
            scores = model.step(ids, state, valid)
            scores[:, self.pad_id] = -torch.inf  # padding is no word
            return scores

        written = list(greedy(step, state, first, limit=limit, end_ids=model.config.eos_ids))
        rows = torch.stack(written, dim=1).tolist()
        return [self.tokenizer.decode([token for token in row if token != DONE]) for row in rows]
