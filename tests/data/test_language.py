"""Texts for a language model: every token foreseen once, prompts only given."""

from pathlib import Path

import numpy as np
import pytest

from data.words import END, PAD, WORDS, Writer
from regard.data.language import Documents, collate_text
from regard.data.shards import prepare
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer


def test_each_token_is_a_target_once_however_a_text_is_cut(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    text = " ".join(WORDS[:20])
    whole = [END, *range(3, 23), END]  # it starts with what ends one, where a vocabulary has no start
    for max_len in (3, 7, 21, 50):
        shards = prepare(write("a.txt", text), Documents(tokenizer, max_len), tmp_path / str(max_len))
        batch = collate_text(shards, np.arange(len(shards)), pad_id=PAD)
        assert batch.ids_in.size(1) <= max_len
        assert batch.ids_out[batch.valid].tolist() == whole[1:]
        assert batch.ids_in[batch.valid].tolist() == whole[:-1]
        assert batch.n_targets == 21


def test_of_a_prompt_nothing_is_learnt(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = "w1 w2\tw3 w4\nw5\tw6\n"
    shards = prepare(write("a.tsv", rows), Documents(tokenizer, 20), tmp_path / "out")
    batch = collate_text(shards, np.array([0, 1]), pad_id=PAD)
    assert [batch.ids_out[i][batch.valid[i]].tolist() for i in (0, 1)] == [[6, 7, END], [9, END]]
    assert batch.ids_in[0].tolist()[:3] == [4, 5, END]  # this vocabulary ends each text
    assert not batch.without_targets().valid.any()


def test_an_answer_that_has_no_room_is_left_out_and_counted(
    write: Writer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = f"{' '.join(WORDS)}\tw3\nw5\tw6\n"
    shards = prepare(write("a.tsv", rows), Documents(tokenizer, 10), tmp_path / "out")
    assert (shards.stats.kept, shards.stats.too_long) == (1, 1)
    with pytest.raises(UserError, match=r"a\.tsv, line 1: a row has 3 columns"):
        prepare(write("a.tsv", "w1\tw2\tw3\n"), Documents(tokenizer, 10), tmp_path / "wrong")
