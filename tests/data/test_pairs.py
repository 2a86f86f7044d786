"""Batches hold the rows that were asked for, shifted by one, and nothing else counts as a target."""

from pathlib import Path

import numpy as np
import torch

from data.words import END, PAD, Writer, ids_of, pairs, prepared, tsv
from regard.data.pairs import collate
from regard.data.shards import Shards
from regard.text.tokenizer import Tokenizer

START = 99


def made(write: Writer, tokenizer: Tokenizer, folder: Path, rows: list[tuple[str, str]]) -> Shards:
    return prepared(write("a.tsv", tsv(rows)), [tokenizer, tokenizer], folder, max_len=50)


def test_a_batch_is_its_rows_padded_and_shifted(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    shards = made(write, tokenizer, tmp_path / "out", [("w1 w2", "w3"), ("w4", "w5 w6"), ("w7", "w8")])
    batch = collate(shards, np.array([1, 0]), pad_id=PAD, start_id=START)
    assert batch.src.tolist() == [[7, END, PAD], [4, 5, END]]
    assert batch.src_valid is not None
    assert batch.src_valid.tolist() == [[True, True, False], [True, True, True]]
    assert batch.tgt_in.tolist() == [[START, 8, 9], [START, 6, PAD]]
    assert batch.tgt_out.tolist() == [[8, 9, END], [6, END, PAD]]
    assert batch.tgt_valid.tolist() == [[True, True, True], [True, True, False]]
    assert batch.n_targets == 5
    assert batch.rows.tolist() == [1, 0]
    assert {batch.src.dtype, batch.tgt_in.dtype, batch.tgt_out.dtype} == {torch.int64}
    assert {batch.src_valid.dtype, batch.tgt_valid.dtype} == {torch.bool}


def test_sources_of_one_length_need_no_mask(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    shards = made(write, tokenizer, tmp_path / "out", [("w1 w2", "w3"), ("w4 w5", "w5 w6"), ("w7", "w8")])
    assert collate(shards, np.array([0, 1]), pad_id=PAD, start_id=START).src_valid is None
    assert collate(shards, np.array([0, 2]), pad_id=PAD, start_id=START).src_valid is not None


def test_every_row_can_be_read_back_from_its_batch(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = pairs(300)
    shards = made(write, tokenizer, tmp_path / "out", rows)
    wanted = np.random.default_rng(0).permutation(300)
    batch = collate(shards, wanted, pad_id=PAD, start_id=START)
    for i, row in enumerate(wanted):
        source, target = map(ids_of, rows[row])
        valid = batch.tgt_valid[i]
        assert batch.src[i][: len(source)].tolist() == source
        assert batch.tgt_out[i][valid].tolist() == target
        assert batch.tgt_in[i][valid].tolist() == [START, *target[:-1]]
    assert batch.n_targets == sum(len(ids_of(target)) for _, target in rows)
