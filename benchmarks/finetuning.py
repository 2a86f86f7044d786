"""How fast does fine-tuning go, beside transformers' Trainer? MiniLM on SST-2.

    python benchmarks/finetuning.py DATA/sst2/glue_train.tsv.gz [--steps 60] [--precision fp32]

Both start from the same weights and head, with the same optimizer, clipping and dropout; how they take turns says
turns.py. The score is tokens a second, padding not counted: sentences differ in length.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn.utils.rnn import pad_sequence
from turns import Batch, Contest, main

from regard.data.labelled import collate_labelled
from regard.pretrained.installed import path_of
from regard.training.config import DataConfig, RunConfig, TrainConfig
from regard.training.loop import Trainer
from regard.training.run import assemble
from regard.training.step import StepResult


def assembled(path: Path, folder: Path, precision: str) -> Trainer:
    train = TrainConfig(batch_tokens=1_000, lr=5e-5, label_smoothing=0.0, precision=precision)  # type: ignore[arg-type]
    data = DataConfig(train=(str(path),), columns=("sentence", "label"), max_len=66)
    return assemble(
        RunConfig(task="classify", data=data, model={"init": str(path_of("minilm"))}, train=train), folder, []
    )


def contest_of(trainer: Trainer, folder: Path) -> Contest:
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    pad_id = trainer.model.config.pad_id or 0

    def whole(rows: np.ndarray) -> Batch:
        batch = collate_labelled(trainer.train, rows, pad_id=pad_id, class_weights=torch.ones(2))
        mask = torch.ones_like(batch.ids) if batch.valid is None else batch.valid.long()
        return {"input_ids": batch.ids, "attention_mask": mask, "labels": batch.labels}

    def single(row: int) -> dict[str, Any]:
        ids, _, label = trainer.train.row(row)
        return {"input_ids": ids.tolist(), "labels": int(label[0])}

    def together(items: list[Any]) -> Batch:
        ids = pad_sequence([torch.tensor(item["input_ids"]) for item in items], True, pad_id)
        labels = torch.tensor([item["labels"] for item in items])
        return {"input_ids": ids, "attention_mask": (ids != pad_id).long(), "labels": labels}

    def ours(rows: np.ndarray, _: StepResult) -> int:
        return int(trainer.lengths[rows].sum())

    return Contest(trainer, theirs, whole, single, together, lambda batch: int(batch["attention_mask"].sum()), ours, {})


if __name__ == "__main__":
    main("finetuning", assembled, contest_of, steps=60, unit="Tokens")
