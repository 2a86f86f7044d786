"""What a task is to a run: what its rows become, what is minimised, and how good is good."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard.data.batches import Position, Steps
from regard.data.corpus import Row
from regard.data.examples import Examples
from regard.data.shards import Shards
from regard.evaluation.score import Score
from regard.models.base import Model
from regard.objectives.loss import Loss
from regard.text.tokenizer import Tokenizer
from regard.text.train import Purpose
from regard.training.config import RunConfig
from regard.training.ranks import ALONE, Ranks

BATCH_TOKENS = 6_000


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
    examples: Examples
    objective: Callable[[Any, Any], Loss]

    def __init__(self, config: RunConfig, tokenizer: Tokenizer | None, labels: Mapping[str, int]) -> None:
        """`labels` are those that `labels_in` found."""
        self.config, self.vocabulary, self.labels = config, tokenizer, tuple(labels)

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


@torch.inference_mode()
def judged(job: Job, model: Model, shards: Shards, ranks: Ranks = ALONE) -> Validation:
    was_training = model.training
    model.eval()
    found = job.judge(model, shards, ranks)
    model.train(was_training)
    return found


def mean_loss(sums: Iterable[tuple[float, int]]) -> float:
    totals, counts = zip(*sums, strict=True)
    return sum(totals) / max(sum(counts), 1)
