"""What a task is to a run: what its rows become, what is minimised, and how good is good."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard.data.batches import Position, Steps
from regard.data.corpus import Row
from regard.data.examples import Examples
from regard.data.shards import Shards
from regard.errors import QUOTED, UserError, cut
from regard.evaluation.score import Score
from regard.models.base import Model
from regard.objectives.loss import Loss
from regard.text.tokenizer import Tokenizer
from regard.text.train import Purpose
from regard.training.config import RunConfig
from regard.training.ranks import ALONE, Ranks

BATCH_TOKENS = 6_000
MOST_LABELS = 1_000
"More are hardly labels: a column of texts or of numbers was named."


@dataclass(frozen=True)
class Validation:
    """How good a model is; `goodness` is what the best one has most of."""

    loss: float
    scores: tuple[Score, ...] = ()
    samples: tuple[str, ...] = ()
    goodness: float = math.nan
    "Its first score, or a small loss where there is none, unless something else is said."

    def __post_init__(self) -> None:
        if math.isnan(self.goodness):
            object.__setattr__(self, "goodness", self.scores[0].value if self.scores else -self.loss)


class Job(ABC):
    """Made when the tokenizer and the labels are known; a run has one."""

    head: ClassVar[str]
    "What the model must have on top: a name that `Layout.with_head` knows."
    purpose: ClassVar[Purpose | None]
    "Of a vocabulary that is learnt for it; none where no text is read."
    budget: ClassVar[int] = BATCH_TOKENS
    "What is read at once where nothing is learnt from it."
    unit: ClassVar[str] = "tokens"
    "What there is to be foreseen, by which speed is told."
    n_texts: ClassVar[int | None] = None
    "Where the texts of a row end, as in `row[:n_texts]`."
    measured: tuple[str, ...] = ()
    "Scores that the best weights can be chosen by, the usual one first; without any the loss decides."
    examples: Examples
    objective: Callable[[Any, Any], Loss]

    def __init__(self, config: RunConfig, tokenizer: Tokenizer | None, labels: Mapping[str, int]) -> None:
        """`labels` are those that `labels_in` found."""
        self.config, self.vocabulary, self.labels = config, tokenizer, tuple(labels)

    def check_metric(self) -> None:
        """Before the first step, and not after the first round."""
        metric = self.config.valid.metric
        if metric and metric.lower() not in map(str.lower, self.measured):
            hint = (
                f"measured are {', '.join(self.measured)}" if self.measured else "leave it out: the loss decides here"
            )
            raise UserError(f"valid.metric is '{cut(metric, QUOTED)}', which is not measured here", hint)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.vocabulary is not None, "this task reads no text"
        return self.vocabulary

    @classmethod
    def labels_in(cls, rows: Iterable[Row], config: RunConfig) -> dict[str, int]:
        """The labels of the training data, in the order of their numbers, and how often each is given."""
        return {}

    @classmethod
    def texts_in(cls, row: Row) -> Sequence[str]:
        """What of a row a vocabulary is learnt from."""
        return row[: cls.n_texts]

    def meet(self, train: Shards) -> None:  # noqa: B027  # most have nothing to ask
        """Before the first batch: what has to be known of all training rows."""

    def begin(self, model: Model, train: Shards) -> None:  # noqa: B027  # most begin as the model does
        """Before the first step of a new run: what fresh weights had better know of the training rows."""

    def arranged(self, shards: Shards, which: str) -> Shards:
        """The rows of a set, train or valid, as `batch` and the order of steps are to see them."""
        return shards

    @abstractmethod
    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> Any:
        """These rows as tensors; whatever is drawn is a function of `key` and of each row for itself."""

    def still(self, shards: Shards, rows: np.ndarray) -> Any:
        """The same where nothing is learnt: always the same."""
        return self.batch(shards, rows, (0,))

    def save_beside(self, folder: Path) -> None:
        """What a model cannot be used without."""
        self.tokenizer.save(folder)

    @abstractmethod
    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        """How good the model is on all of `shards`; each rank takes its share."""

    # ---- what the judges share

    def read(self, shards: Shards, ranks: Ranks, reading: Callable[[Any], Any]) -> list[Any]:
        """`reading(batch)`, plain JSON, for all batches of `shards`, each rank a share; in the same order on all."""
        own = [reading(ranks.placed(batch)) for batch in self._batches(shards, ranks)]
        return ranks.merge(own)

    def _batches(self, shards: Shards, ranks: Ranks) -> Iterator[Any]:
        steps = Steps(shards.lengths[:, : self.examples.n_costly], budget=self.budget, seed=0)
        everything = [rows for rows, _ in islice(steps.steps(Position()), steps.steps_in_epoch(0))]
        for rows in ranks.share(everything):
            yield self.still(shards, rows)


def check_labels(found: Mapping[str, int], noun: str, hint: str) -> None:
    data = "the training data have"
    if not found:
        raise UserError(f"{data} no rows with {noun}", "check data.train, and data.hold_out if it is set")
    if len(found) == 1:
        only = cut(next(iter(found)), QUOTED)
        raise UserError(f"{data} no {noun} but '{only}'", f"two are the least there is to learn; {hint}")
    if len(found) > MOST_LABELS:
        raise UserError(f"{data} {len(found):,} different {noun}", f"expected at most {MOST_LABELS:,}; {hint}")


@torch.inference_mode()
def judged(job: Job, model: Model, shards: Shards, ranks: Ranks = ALONE) -> Validation:
    was_training = model.training
    model.eval()
    found = job.judge(model, shards, ranks)
    model.train(was_training)
    return led_by(found, job.config.valid.metric)


def led_by(found: Validation, metric: str) -> Validation:
    """The score that was asked for before the others: it decides which weights are best."""
    if not metric:
        return found
    scores = sorted(found.scores, key=lambda score: score.name.lower() != metric.lower())
    return replace(found, scores=tuple(scores), goodness=math.nan)


def mean_loss(sums: Iterable[tuple[float, int]]) -> float:
    totals, counts = zip(*sums, strict=True)
    return sum(totals) / max(sum(counts), 1)
