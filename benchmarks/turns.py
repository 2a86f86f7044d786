"""Our trainer and transformers' Trainer, step by step in turns.

The Trainer runs once and ours steps inside its callback, so the two take turns step by step; each is charged for all
it does between two steps. The score is targets a second. Two questions: *same batches* (ours, given to both) and *own
batching* (each cuts the epoch in its own way; the Trainer groups by length, with as many rows a step as ours has on
average).
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from harness import machine, report

from regard.data.batches import Position, Steps
from regard.training.loop import Trainer
from regard.training.step import StepResult
from regard.weights.store import save_model

WARM_UP = 3
Batch = dict[str, torch.Tensor]


@dataclass
class Contest:
    """One model and its data, in the words of both sides."""

    trainer: Trainer
    theirs: Any
    "The same model, opened by transformers."
    whole: Callable[[np.ndarray], Batch]
    "These rows of ours as one batch of theirs."
    single: Callable[[int], dict[str, Any]]
    "One row as an item of their data set."
    together: Callable[[list[Any]], Batch]
    "Their collator."
    targets: Callable[[Batch], int]
    "What is counted, of a batch of theirs."
    ours: Callable[[np.ndarray, StepResult], int]
    "The same, of these rows and what our step says of them."
    options: Mapping[str, Any]
    "Of their Trainer, so that it does what ours does."

    @property
    def steps(self) -> Steps:
        config = self.trainer.config
        return Steps(self.trainer.lengths, budget=config.train.batch_tokens, seed=config.seed)


class Turns(transformers.TrainerCallback):  # type: ignore[misc]
    """Lets ours step whenever the Trainer has stepped, and keeps both clocks."""

    def __init__(self, contest: Contest, seen: "Seen") -> None:
        self.contest, self.seen, self.step = contest, seen, 0
        self.trainer = trainer = contest.trainer
        self.rows = (rows for rows, _ in contest.steps.steps(Position()))
        self.began = time.perf_counter()
        self.rates: dict[str, list[float]] = {"ours": [], "theirs": []}
        trainer.trained.train()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        middle = time.perf_counter()
        rows = next(self.rows)
        done = self.trainer._step(rows)
        end = time.perf_counter()
        if self.step >= WARM_UP:
            self.rates["theirs"].append(self.seen.counts[self.step] / (middle - self.began))
            self.rates["ours"].append(self.contest.ours(rows, done) / (end - middle))
        self.step += 1
        self.began = time.perf_counter()


class Seen:
    """Counts the targets of every batch that the Trainer takes, which it does a step before it needs it."""

    def __init__(self, inner: Callable[[list[Any]], Batch], targets: Callable[[Batch], int]) -> None:
        self.inner, self.targets = inner, targets
        self.counts: list[int] = []

    def __call__(self, items: list[Any]) -> Batch:
        batch = self.inner(items)
        self.counts.append(self.targets(batch))
        return batch


def compare(contest: Contest, folder: Path, *, same: bool, steps: int) -> dict[str, list[float]]:
    ours = contest.steps
    if same:
        rows = ours.steps(Position())
        data: list[Any] = [contest.whole(next(rows)[0]) for _ in range(steps + WARM_UP)]
        seen, size, order = Seen(lambda items: items[0], contest.targets), 1, "sequential"
    else:
        data = [contest.single(i) for i in range(len(contest.trainer.train))]
        seen, order = Seen(contest.together, contest.targets), "group_by_length"
        size = round(len(data) / ours.steps_in_epoch(0))
    turns = Turns(contest, seen)
    options = transformers.TrainingArguments(
        output_dir=str(folder / "trainer"), per_device_train_batch_size=size, max_steps=steps + WARM_UP,
        train_sampling_strategy=order, optim="adamw_torch_fused", max_grad_norm=contest.trainer.config.train.clip,
        learning_rate=contest.trainer.config.train.lr, bf16=contest.trainer.autocast is not None, use_cpu=True,
        report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        **contest.options,
    )  # fmt: skip
    transformers.Trainer(contest.theirs, options, data_collator=seen, train_dataset=data, callbacks=[turns]).train()
    return turns.rates


def run(name: str, contest: Contest, folder: Path, steps: int, unit: str) -> None:
    rows, results = [], []
    for label, same in {"same batches": True, "own batching": False}.items():
        rates = compare(contest, folder, same=same, steps=steps)
        middle = {who: float(np.median(values)) for who, values in rates.items()}
        ratios = np.quantile(np.array(rates["ours"]) / np.array(rates["theirs"]), [0.25, 0.5, 0.75])
        total = middle["ours"] / middle["theirs"]
        rows.append([label, f"{total:.2f}x", f"{ratios[0]:.2f} to {ratios[2]:.2f}"])
        results.append({"batches": label, "ratio": total, "per_second": middle, "rates": rates})
    size, precision = contest.trainer.model.n_parameters, "bf16" if contest.trainer.autocast else "fp32"
    padding, budget = contest.steps.padding(0), contest.trainer.config.train.batch_tokens
    data = {"machine": machine(("transformers", "accelerate")), "steps": steps, "precision": precision}
    report(
        name,
        ["batches", "ours against transformers' Trainer", "middle half of the steps"],
        rows,
        {**data, "parameters": size, "budget": budget, "padding": padding, "results": results},
        f"{unit} a second, above 1 ours is faster; medians over the steps, which take turns. {size / 1e6:.1f} M "
        f"parameters, {precision}, {budget:,} tokens a step, of which {padding:.1%} are padding in an epoch of ours.",
    )


def main(
    name: str,
    assembled: Callable[[Path, Path, str], Trainer],
    contest_of: Callable[[Trainer, Path], Contest],
    *,
    steps: int,
    unit: str,
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        trainer = assembled(options.data, folder, options.precision)
        save_model(trainer.model, folder / "model")
        run(name, contest_of(trainer, folder / "model"), folder, options.steps, unit)
