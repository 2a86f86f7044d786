"""The loop: when to step, to log, to validate, to save, to stop. The arithmetic is in step.py."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.batches import Position, Steps, split
from regard.data.shards import Shards
from regard.errors import FAILURE, UserError
from regard.models.base import Model
from regard.training import checkpoint
from regard.training.config import RunConfig
from regard.training.energy import Energy, Meter
from regard.training.jobs.job import Job, Validation
from regard.training.ranks import Ranks
from regard.training.schedule import rate
from regard.training.step import StepResult, seed_of, step

LOG_SECONDS = 1.0
WINDOW = 60
"So many last reports tell the speed and the time left: what a run did before a break says nothing about it now."
MAX_BAD_STEPS = 20
"So many steps in a row without a number, and the run is lost: it stops and says where."

Listener = Callable[..., None]


@dataclass
class Progress:
    """Where a run is; all of it is in every checkpoint."""

    step: int = 0
    position: Position = field(default_factory=Position)
    best: float = float("-inf")
    best_step: int = 0
    stale: int = 0
    "Validations since the best."
    seconds: float = 0.0
    joules: float = 0.0
    bad_steps: int = 0

    def to_dict(self) -> dict[str, Any]:
        position = {"epoch": self.position.epoch, "step": self.position.step}
        return {**vars(self), "position": position, "best": None if self.best == float("-inf") else self.best}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Progress":
        best = float("-inf") if data["best"] is None else data["best"]
        return cls(**{**data, "position": Position(**data["position"]), "best": best})


@dataclass
class Trainer:
    """Everything a run needs, put together by run.py."""

    config: RunConfig
    job: Job
    folder: Path
    ranks: Ranks
    model: Model
    trained: nn.Module
    "The model as a step calls it; `ranks` has made it."
    blank: Callable[[], Model]
    "Builds a model of the same kind, without its weights."
    optimizer: torch.optim.Optimizer
    train: Shards
    validate: Callable[[Model], Validation] | None
    save_best: Callable[[Model], None]
    facts: dict[str, Any]
    "What must be equal when a run is resumed: fingerprints of configuration and data."
    listeners: list[Listener] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    autocast: torch.dtype | None = None

    def __post_init__(self) -> None:
        self.meter = Meter(self.progress.joules if self.ranks.is_first else 0.0)
        self.began = time.monotonic() - self.progress.seconds
        self.saved_at = time.monotonic()
        self.saved_step = self.progress.step
        self.targets = 0
        self.recent: deque[tuple[float, int, int]] = deque(maxlen=WINDOW)
        self._look_again()

    @property
    def lengths(self) -> np.ndarray:
        """Of what the model reads in each row."""
        return self.train.lengths[:, : self.job.examples.n_costly]

    def tell(self, kind: str, **values: Any) -> None:
        for listener in self.listeners:
            listener(kind, **values)

    def fit(self, stop: Event) -> str:
        """Train to the end, or until `stop` is set on some rank; returns "finished", "stopped" or "no better"."""
        with self.ranks.watched(lambda: f"after step {self.progress.step}"):
            return self._fit(stop)

    def _fit(self, stop: Event) -> str:
        train, progress = self.config.train, self.progress
        steps = Steps(self.lengths, budget=train.batch_tokens, seed=self.config.seed)
        self.trained.train()
        for rows, after in steps.steps(progress.position):
            if progress.step >= train.steps:
                return self._end("finished")
            if self._is_stale():  # here, so that a run that ended so ends so again
                return self._end("no better")
            stopping, saving = self.ranks.any(stop.is_set(), time.monotonic() - self.saved_at > train.save_minutes * 60)
            if stopping:
                return self._end("stopped")
            if saving:
                self.save()
            result, epoch = self._step(rows), progress.position.epoch
            progress.step, progress.position = progress.step + 1, after
            self._log(result, epoch)
            if progress.step % self.config.valid.every == 0 or progress.step == train.steps:
                self._validate()
        raise AssertionError("steps never end")

    def _step(self, rows: Any) -> StepResult:
        train, now = self.config.train, self.progress.step
        lr = rate(now, kind=train.schedule, peak=train.lr, low=train.min_lr, warmup=train.warmup, steps=train.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group["scale"]
        batches = self.ranks.every("reading the data", lambda: self._batches(rows))
        seeds = [seed_of(self.config.seed, now, part) for part in batches]
        result = step(
            self.trained, [*batches.values()], self.job.objective, self.optimizer, clip=train.clip, seeds=seeds,
            autocast=self.autocast, ranks=self.ranks,
        )  # fmt: skip
        if result.bad:
            self._complain(result, rows)
        else:
            self.progress.bad_steps = 0
        return result

    def _batches(self, rows: Any) -> dict[int, Any]:
        """This rank's parts of a step by their number in the whole of it, which is also what seeds their dropout."""
        size, key = self.ranks.size, (self.config.seed, self.progress.step)
        n_parts = -(-self.config.train.accumulate // size) * size
        parts = [part for part in split(rows, self.lengths, n_parts) if len(part)]
        n_turns = -(-len(parts) // size)
        batches = {}
        for number in self.ranks.share(range(n_turns * size)):
            idle = number >= len(parts)
            part = rows[:1] if idle else parts[number]
            batch = self.job.batch(self.train, part, key)
            batches[number] = self.ranks.placed(batch.without_targets() if idle else batch)
        return batches

    def _complain(self, result: StepResult, rows: Any) -> None:
        """A step that is not a number is skipped or fatal; either way its place and its rows are named."""
        self.progress.bad_steps += 1
        number = self.progress.step + 1
        self.tell("bad step", step=number, layer=result.bad, loss=str(result.loss), rows=rows.tolist()[:20])
        if self.config.train.on_nan == "stop" or self.progress.bad_steps >= MAX_BAD_STEPS:
            raise UserError(
                f"step {number}: the gradient of {result.bad} is not a number (rows {rows.tolist()[:8]} ...)",
                "lower train.lr or train.clip, or look at those rows; the last checkpoint is untouched",
                exit_code=FAILURE,
            )

    def _log(self, result: StepResult, epoch: int) -> None:
        self.targets += result.n_targets
        now, done = time.monotonic(), self.progress.step
        self.progress.seconds = now - self.began
        if now - self.recent[-1][0] < LOG_SECONDS and done < self.config.train.steps:
            return
        then, step_then, targets_then = self.recent[0]
        speed = (self.targets - targets_then) / max(now - then, 1e-9)
        left = (now - then) / (done - step_then) * (self.config.train.steps - done)
        self.tell(
            "step", step=done, of=self.config.train.steps, epoch=epoch, loss=result.loss,
            norm=result.norm, lr=self.optimizer.param_groups[-1]["lr"], tokens_per_second=speed, unit=self.job.unit,
            seconds=self.progress.seconds, seconds_left=left,
        )  # fmt: skip
        self.recent.append((now, done, self.targets))

    def _look_again(self) -> None:
        """Forget the speed so far: there was a break."""
        self.recent.clear()
        self.recent.append((time.monotonic(), self.progress.step, self.targets))

    def _validate(self) -> None:
        progress = self.progress
        if self.validate is not None:
            model = self.ranks.whole(self.model, self.blank)
            found = self._scored(model, self.validate)
            better = found.goodness > progress.best
            progress.stale = 0 if better else progress.stale + 1
            if better:
                progress.best, progress.best_step = found.goodness, progress.step
                self.ranks.first("saving the best model", lambda: self.save_best(model))
            scores = {score.name: score.value for score in found.scores}
            told = {"loss": found.loss, "best": better, "samples": found.samples, "scores": list(scores), **scores}
            self.tell("valid", step=progress.step, **told)
        self.save()
        self._look_again()

    def _scored(self, model: Model, validate: Callable[[Model], Validation]) -> Validation:
        try:
            return validate(model)
        except UserError as error:
            raise UserError(
                f"validation after step {self.progress.step}: {error.message}",
                f"if the loss has grown, training has diverged: lower train.lr ({self.config.train.lr:g}) or lengthen "
                f"train.warmup; the last checkpoint is of step {self.saved_step}",
                exit_code=error.exit_code,
            ) from error

    def _is_stale(self) -> bool:
        patience = self.config.valid.patience
        return bool(patience) and self.progress.stale >= patience

    def save(self) -> None:
        """A checkpoint of this very step; then old ones go, but those that will be averaged stay."""
        progress, every = self.progress, self.config.valid.every
        if progress.bad_steps:  # the weights may be spoilt already: what was good before is not pushed out
            return
        progress.seconds, progress.joules = time.monotonic() - self.began, self.energy().joules
        folder, meta = self.folder / "checkpoints", {"progress": progress.to_dict(), **self.facts}
        self.ranks.save(folder, progress.step, self.model, self.optimizer, meta)
        self.saved_at, self.saved_step = time.monotonic(), progress.step
        keep = self.to_average(every) | {progress.step, progress.best_step}
        self.ranks.first("removing old checkpoints", lambda: checkpoint.prune(folder, keep=keep))

    def to_average(self, every: int) -> set[int]:
        """Steps of the last validations: a function of the step alone, so that a resumed run averages the same."""
        last, count = self.progress.step, self.config.train.average
        steps = [n for n in range(1, last + 1) if n % every == 0 or n == self.config.train.steps]
        return set(steps[-count:])

    def _end(self, how: str) -> str:
        if self.saved_step != self.progress.step:
            self.save()
        energy = self.energy()
        told = {"energy": str(energy), "joules": energy.joules, "beside": energy.beside()}
        self.tell("end", how=how, step=self.progress.step, seconds=self.progress.seconds, **told)
        return how

    def energy(self) -> Energy:
        """Of all ranks together."""
        own = self.meter.read()
        counts = own.kind == "estimated" or self.ranks.is_first_here  # a meter is the machine's, not the process's
        return replace(own, joules=self.ranks.sum(own.joules if counts else 0.0)[0])
