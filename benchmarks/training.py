"""How fast does training go, beside transformers' Trainer? A Marian of 9.2 M parameters on Tatoeba.

    python benchmarks/training.py DATA/tatoeba_pt_en/train.pt-en.tsv.gz [--steps 40] [--precision fp32]

Both start from the same weights, with the same optimizer, clipping, dropout and label smoothing. Two questions:
*same batches* (ours, given to both) and *own batching* (each cuts the epoch in its own way; the Trainer groups by
length, with as many sentences a step as ours has on average). The Trainer runs once and ours steps inside its
callback, so the two take turns step by step; each is charged for all it does between two steps. The score is
target tokens a second.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from harness import machine, report

from regard.data.batches import Position, Steps
from regard.data.pairs import collate
from regard.objectives.seq2seq import Seq2Seq
from regard.training.config import DataConfig, RunConfig, TrainConfig
from regard.training.loop import Trainer
from regard.training.run import assemble
from regard.weights.store import save_model

BUDGET = 6_000


def assembled(path: Path, folder: Path, precision: str) -> Trainer:
    train = TrainConfig(batch_tokens=BUDGET, precision=precision)  # type: ignore[arg-type]
    model = {"preset": "transformer-small", "dropout": 0.1, "position": "sinusoidal_halves"}
    data = DataConfig(train=(str(path),), max_len=100)
    return assemble(RunConfig(data=data, model=model, train=train), folder, [])


class Ours:
    """One optimizer step after the other, over our own batches."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.objective = trainer, Seq2Seq(label_smoothing=0.1)
        self.steps = Steps(trainer.train.lengths, budget=BUDGET, seed=1).steps(Position())
        trainer.model.train()

    def step(self) -> int:
        rows, _ = next(self.steps)
        return self.trainer._step(rows, self.objective).n_targets


class Turns(transformers.TrainerCallback):  # type: ignore[misc]
    """Lets ours step whenever the Trainer has stepped, and keeps both clocks."""

    def __init__(self, ours: Callable[[], int], targets: Callable[[], int], warm_up: int) -> None:
        self.ours, self.targets, self.warm_up = ours, targets, warm_up
        self.began = time.perf_counter()
        self.rates: dict[str, list[float]] = {"ours": [], "theirs": []}

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        middle = time.perf_counter()
        count = self.ours()
        end = time.perf_counter()
        if self.warm_up:
            self.warm_up -= 1
        else:
            self.rates["theirs"].append(self.targets() / (middle - self.began))
            self.rates["ours"].append(count / (end - middle))
        self.began = time.perf_counter()


class Seen:
    """Counts the targets of the batch that the Trainer took last."""

    def __init__(self, inner: Callable[[list[Any]], dict[str, torch.Tensor]]) -> None:
        self.inner, self.count = inner, 0

    def __call__(self, items: list[Any]) -> dict[str, torch.Tensor]:
        batch = self.inner(items)
        self.count = int((batch["labels"] != -100).sum())
        return batch


def whole_batches(trainer: Trainer, count: int) -> list[dict[str, torch.Tensor]]:
    """Our first batches in their form."""
    config, batches = trainer.model.config, []
    for rows, _ in Steps(trainer.train.lengths, budget=BUDGET, seed=1).steps(Position()):
        batch = collate(trainer.train, rows, pad_id=config.pad_id, start_id=config.start_id)
        mask = torch.ones_like(batch.src) if batch.src_valid is None else batch.src_valid.long()
        labels = batch.tgt_out.masked_fill(~batch.tgt_valid, -100)
        shown = {"input_ids": batch.src, "attention_mask": mask, "decoder_input_ids": batch.tgt_in}
        batches.append({**shown, "labels": labels})
        if len(batches) == count:
            return batches
    raise AssertionError("steps never end")


def single_rows(trainer: Trainer) -> list[dict[str, list[int]]]:
    rows = (trainer.train.row(i) for i in range(len(trainer.train)))
    return [{"input_ids": src.tolist(), "labels": tgt.tolist()} for src, tgt in rows]


def padded(theirs: Any, pad_id: int) -> Callable[[list[Any]], dict[str, torch.Tensor]]:
    """What transformers' own collator for translation does, without its tokenizer."""

    def pad(sides: list[list[int]], value: int) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(side) for side in sides], True, value)

    def together(items: list[Any]) -> dict[str, torch.Tensor]:
        ids = pad([item["input_ids"] for item in items], pad_id)
        labels = pad([item["labels"] for item in items], -100)
        shown = theirs.prepare_decoder_input_ids_from_labels(labels)
        mask = (ids != pad_id).long()
        return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": shown, "labels": labels}

    return together


def compare(trainer: Trainer, folder: Path, *, same: bool, steps: int, warm_up: int = 3) -> dict[str, list[float]]:
    theirs = transformers.MarianMTModel.from_pretrained(folder)
    if same:
        data: list[Any] = whole_batches(trainer, steps + warm_up)
        collator, size, order = Seen(lambda items: items[0]), 1, "sequential"
    else:
        data = single_rows(trainer)
        epoch = Steps(trainer.train.lengths, budget=BUDGET, seed=1).steps_in_epoch(0)
        collator, size, order = (
            Seen(padded(theirs, trainer.model.config.pad_id)),
            round(len(data) / epoch),
            "group_by_length",
        )
    turns = Turns(Ours(trainer).step, lambda: collator.count, warm_up)
    options = transformers.TrainingArguments(
        output_dir=str(folder / "trainer"), per_device_train_batch_size=size, max_steps=steps + warm_up,
        train_sampling_strategy=order, optim="adamw_torch_fused", learning_rate=1e-3, max_grad_norm=1.0,
        label_smoothing_factor=0.1, bf16=trainer.autocast is not None, use_cpu=True, report_to=[], save_strategy="no",
        logging_strategy="no", disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    transformers.Trainer(theirs, options, data_collator=collator, train_dataset=data, callbacks=[turns]).train()
    return turns.rates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    rows, results = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trainer = assembled(options.data, folder, options.precision)
        save_model(trainer.model, folder / "model")
        for label, same in {"same batches": True, "own batching": False}.items():
            rates = compare(trainer, folder / "model", same=same, steps=options.steps)
            middle = {who: float(np.median(values)) for who, values in rates.items()}
            ratios = np.quantile(np.array(rates["ours"]) / np.array(rates["theirs"]), [0.25, 0.5, 0.75])
            total = middle["ours"] / middle["theirs"]
            rows.append([label, f"{total:.2f}x", f"{ratios[0]:.2f} to {ratios[2]:.2f}"])
            results.append({"batches": label, "ratio": total, "tokens_per_second": middle, "rates": rates})
        padding = Steps(trainer.train.lengths, budget=BUDGET, seed=1).padding(0)
        size, precision = trainer.model.n_parameters, "bf16" if trainer.autocast else "fp32"
    data = {"machine": machine(("transformers", "accelerate")), "steps": options.steps, "precision": precision}
    report(
        "training",
        ["batches", "ours against transformers' Trainer", "middle half of the steps"],
        rows,
        {**data, "parameters": size, "budget": BUDGET, "padding": padding, "results": results},
        "Target tokens a second, above 1 ours is faster; medians over the steps, which take turns. "
        f"{size / 1e6:.1f} M parameters, {precision}, {BUDGET:,} tokens a step counting both sides, of which "
        f"{padding:.1%} are padding in an epoch of ours.",
    )


if __name__ == "__main__":
    main()
