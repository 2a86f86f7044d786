"""Rows of ids as tensors: padded, shifted, counted."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.shards import Shards


@dataclass
class PairBatch:
    """Sentence pairs for an encoder and a decoder; `valid` marks what is real."""

    src: Tensor  # (B, S)
    src_valid: Tensor | None
    "None where nothing is padded: attention then needs no mask."
    tgt_in: Tensor  # (B, T)
    "What the decoder reads: the start token, then the target without its last."
    tgt_out: Tensor  # (B, T)
    "What it has to say."
    tgt_valid: Tensor  # (B, T)
    n_targets: int
    rows: np.ndarray
    "Where the pairs stand in the corpus."

    def without_targets(self) -> Self:
        """The same work for nothing, for a rank that has nothing to do: all must call each other equally often."""
        return replace(self, tgt_valid=torch.zeros_like(self.tgt_valid), n_targets=0)


def collate(shards: Shards, rows: np.ndarray, *, pad_id: int, start_id: int) -> PairBatch:
    """The first column is the source, the second the target."""
    (src, src_valid), (tgt_out, tgt_valid) = (padded(*column, pad_id) for column in shards.gather(rows)[:2])
    return PairBatch(
        src=torch.from_numpy(src),
        src_valid=None if src_valid.all() else torch.from_numpy(src_valid),
        tgt_in=torch.from_numpy(shifted(tgt_out, tgt_valid, start_id, pad_id)),
        tgt_out=torch.from_numpy(tgt_out),
        tgt_valid=torch.from_numpy(tgt_valid),
        n_targets=int(tgt_valid.sum()),
        rows=rows,
    )


def padded(ids: np.ndarray, lengths: np.ndarray, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """A column of rows one after another as a matrix (B, T), and which of its entries are real."""
    valid = np.arange(lengths.max()) < lengths[:, None]  # (B, T)
    padded = np.full(valid.shape, pad_id, dtype=np.int64)
    padded[valid] = ids
    return padded, valid


def shifted(ids: np.ndarray, valid: np.ndarray, start_id: int, pad_id: int) -> np.ndarray:
    moved = np.full_like(ids, start_id)
    moved[:, 1:] = ids[:, :-1]
    moved[~valid] = pad_id  # else the last token of a short row would stand in its padding
    return moved
