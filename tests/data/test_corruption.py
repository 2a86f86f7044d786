"""Spans taken out of texts: what is read and what is to be written rebuild the text, and the shares are T5's."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.words import Writer
from regard.data.chunks import Chunks
from regard.data.corruption import Corruption, spans
from regard.data.shards import prepare
from regard.data.shuffle import chances
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig, sentinel, train

WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture(scope="module")
def spans_tokenizer() -> Tokenizer:
    return train([" ".join(WORDS)] * 2, TokenizerConfig(kind="bpe", vocab_size=700), purpose="spans")


def rebuilt(read: list[int], written: list[int], marks: set[int], end: int) -> list[int]:
    """The text: each sentinel in what is read by what follows it in what is written."""
    assert (read.pop(), written.pop()) == (end, end)
    told: dict[int, list[int]] = {}
    for id in written:
        if id in marks:
            last = told.setdefault(id, [])
        else:
            last.append(id)
    return [id for one in read for id in (told[one] if one in marks else [one])]


@given(st.integers(2, 700), st.integers(0, 2**40))
def test_inputs_and_targets_rebuild_the_text(spans_tokenizer: Tokenizer, n: int, seed: int) -> None:
    corruption = Corruption(spans_tokenizer)
    ids = np.random.default_rng(seed).integers(3, spans_tokenizer.vocab_size - 100, n)
    draws = chances((seed,), np.arange(2), n)
    read, written = corruption.split(ids, *draws)
    marks = set(corruption.sentinels.tolist())
    assert rebuilt(read.tolist(), written.tolist(), marks, corruption.end) == ids.tolist()
    order = [id for id in written.tolist() if id in marks]
    assert order == corruption.sentinels[: len(order)].tolist()


def test_a_share_of_15_percent_in_spans_of_three(spans_tokenizer: Tokenizer) -> None:
    taken = [spans(100, *chances((seed,), np.arange(2), 100), most=100) for seed in range(500)]
    assert all(each.sum() == 15 for each in taken)
    assert all((np.diff(each.astype(int)) == 1).sum() == 5 for each in taken)
    assert not any(each[0] for each in taken)  # something is read first
    where = np.mean(taken, axis=0)
    assert where[1:].min() > 0.02  # no place is spared
    assert where[-1] == 1  # as in T5, what is taken out comes last


def test_sentinels_are_the_last_ids_the_first_of_them_last(spans_tokenizer: Tokenizer) -> None:
    size = spans_tokenizer.vocab_size
    assert [spans_tokenizer.id_of(sentinel(i)) for i in (0, 1, 99)] == [size - 1, size - 2, size - 100]
    assert spans_tokenizer.pad_id == 0
    assert spans_tokenizer.encode("w1").ids[-1] == spans_tokenizer.eos_id == 1
    assert spans_tokenizer.encode("w1 <extra_id_3> w2").ids.count(size - 4) == 1


def test_a_batch_is_what_an_encoder_reads_and_a_decoder_writes(
    write: Writer, spans_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    text = "\n".join(" ".join(WORDS[: 3 + n]) for n in range(30))
    shards = prepare(write("a.txt", text), Chunks(spans_tokenizer, 40), tmp_path / "out")
    corruption, rows = Corruption(spans_tokenizer), np.arange(len(shards))
    batch = corruption(shards, rows, key=(1, 2))
    marks = set(corruption.sentinels.tolist())
    for row in range(len(shards)):
        read = batch.src[row] if batch.src_valid is None else batch.src[row][batch.src_valid[row]]
        written = batch.tgt_out[row][batch.tgt_valid[row]]
        found = rebuilt(read.tolist(), written.tolist(), marks, corruption.end)
        assert found == shards.row(row)[0].tolist()
        assert batch.tgt_in[row][batch.tgt_valid[row]].tolist() == [0, *written[:-1].tolist()]
    assert not (corruption(shards, rows, key=(1, 3)).src == batch.src).all()


def test_a_vocabulary_without_sentinels_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match="has no <extra_id_0>"):
        Corruption(tokenizer)
