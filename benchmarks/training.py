"""How fast does training go, beside transformers' Trainer? A Marian of 9.2 M parameters on Tatoeba.

    python benchmarks/training.py DATA/tatoeba_pt_en/train.pt-en.tsv.gz [--steps 40] [--precision fp32]

Both start from the same weights, with the same optimizer, clipping, dropout and label smoothing; how they take turns
says turns.py. The score is target tokens a second.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn.utils.rnn import pad_sequence
from turns import Batch, Contest, main

from regard.data.pairs import collate
from regard.training.config import DataConfig, RunConfig, TrainConfig
from regard.training.loop import Trainer
from regard.training.run import assemble


def assembled(path: Path, folder: Path, precision: str) -> Trainer:
    train = TrainConfig(batch_tokens=6_000, precision=precision)  # type: ignore[arg-type]
    model = {"preset": "transformer-small", "dropout": 0.1, "position": "sinusoidal_halves"}
    data = DataConfig(train=(str(path),), max_len=100)
    return assemble(RunConfig(data=data, model=model, train=train), folder, [])


def contest_of(trainer: Trainer, folder: Path) -> Contest:
    theirs, config = transformers.MarianMTModel.from_pretrained(folder), trainer.model.config

    def whole(rows: np.ndarray) -> Batch:
        batch = collate(trainer.train, rows, pad_id=config.pad_id, start_id=config.start_id)
        mask = torch.ones_like(batch.src) if batch.src_valid is None else batch.src_valid.long()
        labels = batch.tgt_out.masked_fill(~batch.tgt_valid, -100)
        return {"input_ids": batch.src, "attention_mask": mask, "decoder_input_ids": batch.tgt_in, "labels": labels}

    def single(row: int) -> dict[str, Any]:
        src, tgt = trainer.train.row(row)
        return {"input_ids": src.tolist(), "labels": tgt.tolist()}

    def together(items: list[Any]) -> Batch:
        """What transformers' own collator for translation does, without its tokenizer."""
        sides = {"input_ids": config.pad_id, "labels": -100}
        ids, labels = (pad_sequence([torch.tensor(i[side]) for i in items], True, v) for side, v in sides.items())
        shown = theirs.prepare_decoder_input_ids_from_labels(labels)
        mask = (ids != config.pad_id).long()
        return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": shown, "labels": labels}

    def targets(batch: Batch) -> int:
        return int((batch["labels"] != -100).sum())

    options = {"label_smoothing_factor": 0.1}
    return Contest(trainer, theirs, whole, single, together, targets, lambda _, done: done.n_targets, options)


if __name__ == "__main__":
    main("training", assembled, contest_of, steps=40, unit="Target tokens")
