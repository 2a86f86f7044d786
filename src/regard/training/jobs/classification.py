"""Texts or pairs of texts with a label, or with a number."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from regard.data.corpus import Row
from regard.data.inputs import N_TEXTS
from regard.data.labelled import Labelled, LabelledBatch, collate_labelled
from regard.data.shards import Shards
from regard.errors import QUOTED, UserError, cut
from regard.evaluation.classification import accuracy, f1, macro_f1, matthews, pearson, rmse, spearman
from regard.evaluation.score import Score
from regard.files import read_json_object, write_json
from regard.models.base import Model
from regard.objectives.classify import Classify, read
from regard.text.tokenizer import Tokenizer
from regard.text.train import Purpose
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, check_labels, mean_loss
from regard.training.ranks import Ranks

VALUE = "value"
"The one label of a model that gives a number."
ENOUGH = 10_000
"Rows to know a mean by."


class Classification(Job):
    head, unit = "classify", "rows"
    purpose: ClassVar[Purpose | None] = "masked"
    n_texts = -1

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels or {VALUE: 0})
        self.examples = Labelled(tokenizer, tuple(labels), config.data.max_len, config.data.names)
        self.objective = Classify(config.train.label_smoothing)
        self.pad_id = tokenizer.pad_id or 0
        self.weights = self._weights(list(labels.values())) if labels else None

    def _weights(self, counts: list[int]) -> torch.Tensor:
        """How much a row of each label counts: in the mean over all rows 1."""
        balanced, n_given = self.config.train.class_weights == "balanced", sum(map(bool, counts))
        return torch.tensor([sum(counts) / n_given / count if balanced and count else 1.0 for count in counts])

    @classmethod
    def labels_in(cls, rows: Iterable[Row], config: RunConfig) -> dict[str, int]:
        if config.data.numbers:
            return {}
        counts = Counter(row[-1].strip() for row in rows if any(map(str.strip, row)))
        counts.pop("", None)
        if config.data.names and not counts.keys() & config.data.names.keys():
            known = ", ".join(cut(label, QUOTED) for label in sorted(counts)[:20])
            raise UserError("data.names renames no label of the training data", f"their labels are {known}")
        named = Counter[str]()
        for label, count in counts.items():
            named[config.data.names.get(label, label)] += count
        hint = "the label is the last of data.columns; where it is a number to be foreseen, set data.numbers=true"
        check_labels(named, "labels", hint)
        return dict(sorted(named.items()))

    @torch.no_grad()
    def begin(self, model: Model, train: Shards) -> None:
        """A number is first foreseen as the mean of all: the way there would take longer than all that is learnt."""
        if self.weights is not None:
            return
        some = np.linspace(0, len(train) - 1, min(len(train), ENOUGH)).astype(np.int64)
        mean = float(self.still(train, some).labels.double().mean())
        for name, head in model.named_modules():
            last = isinstance(head, nn.Linear) and "classify" in name.split(".") and head.out_features == 1
            if last and head.bias is not None and not head.bias.any():
                head.bias.fill_(mean)

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> LabelledBatch:
        return collate_labelled(shards, rows, pad_id=self.pad_id, class_weights=self.weights)

    def save_beside(self, folder: Path) -> None:
        """Whether it compares two texts, so that it is not asked about one."""
        super().save_beside(folder)
        if columns := self.config.data.columns:
            path = folder / "tokenizer_config.json"
            write_json(path, read_json_object(path) | {N_TEXTS: len(columns) - 1})

    def logits(self, model: Model, batch: Any) -> torch.Tensor:
        return read(model, batch).logits

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        objective = Classify()

        def reading(batch: LabelledBatch) -> dict[str, Any]:
            logits = self.logits(model, batch).float()  # (B, labels)
            loss = objective.of(logits, batch)
            given = logits[:, 0] if self.weights is None else logits.argmax(-1)
            return {"loss": (float(loss.total), loss.count), "given": given.tolist(), "right": batch.labels.tolist()}

        found = self.read(shards, ranks, reading)
        given, right = ([value for each in found for value in each[side]] for side in ("given", "right"))
        loss, scores = mean_loss(each["loss"] for each in found), tuple(self._scores(given, right))
        # numbers in the right order may all be wrong, so that no correlation chooses the best weights unless asked
        return Validation(loss, scores, goodness=-loss if self.weights is None else math.nan)

    @property
    def measured(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.weights is None:
            return "Pearson", "Spearman"
        return "accuracy", "F1" if len(self.labels) == 2 else "macro-F1", "Matthews"

    def _scores(self, given: list[Any], right: list[Any]) -> list[Score]:
        if self.weights is None:
            return [pearson(given, right), spearman(given, right), rmse(given, right)]
        given, right = ([self.labels[number] for number in side] for side in (given, right))
        two = len(self.labels) == 2
        overlap = f1(given, right, positive=self.labels[1]) if two else macro_f1(given, right)
        return [accuracy(given, right), overlap, matthews(given, right)]
