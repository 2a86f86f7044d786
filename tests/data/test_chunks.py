"""Documents as chunks of sentences, and pairs of texts cut out of them."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from data.words import Writer
from regard.data.chunks import Chunks, halves
from regard.data.masked import Masking, around
from regard.data.sentence_pairs import SentencePairs
from regard.data.shards import Shards, prepare
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig, train

N_DOCUMENTS, ROOM = 150, 29


def letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def documents() -> list[list[str]]:
    """Sentences that say which document they are of and which of its sentences they are."""
    chance = random.Random(2)
    return [
        [f"A{letters(document)} {' '.join(['b', 'c', 'd'][: chance.randint(1, 3)])} n{letters(number)} ."
         for number in range(chance.randint(1, 30))]
        for document in range(N_DOCUMENTS)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def masked_tokenizer() -> Tokenizer:
    texts = [sentence for document in documents() for sentence in document]
    return train(texts, TokenizerConfig(kind="word", vocab_size=600, min_frequency=1), purpose="masked")


@pytest.fixture
def shards(write: Writer, masked_tokenizer: Tokenizer, tmp_path: Path) -> Shards:
    text = "\n".join(" ".join(document) for document in documents())
    return prepare(write("a.txt", text + "\n"), Chunks(masked_tokenizer, ROOM), tmp_path / "out")


def names(tokenizer: Tokenizer, ids: np.ndarray) -> list[str]:
    return [tokenizer.token_of(int(id)).lstrip("▁") for id in ids]


def test_chunks_hold_all_of_a_document_in_its_order(shards: Shards, masked_tokenizer: Tokenizer) -> None:
    found = [name for row in range(len(shards)) for name in names(masked_tokenizer, shards.row(row)[0])]
    assert found == [word for document in documents() for sentence in document for word in sentence.split()]
    assert shards.lengths[:, 0].max() <= ROOM


def test_half_of_the_second_texts_follow_and_half_are_of_another_document(
    shards: Shards, masked_tokenizer: Tokenizer
) -> None:
    rows, n_apart, n = np.arange(len(shards)), 0, 0
    for step in range(20):
        pairs, apart = halves(shards, rows, (1, step))
        for row, (first, second) in enumerate(pairs):
            assert len(first)
            assert len(second)
            assert len(first) + len(second) <= ROOM
            chunk = shards.row(row)[0]
            if apart[row]:
                documents_of = {name for name in names(masked_tokenizer, first) if name[0] == "A"}
                assert documents_of.isdisjoint(names(masked_tokenizer, second))
            else:
                assert np.array_equal(np.concatenate([first, second]), chunk[: len(first) + len(second)])
                assert len(first) in (shards.row(row)[1] if len(shards.row(row)[1]) else range(1, len(chunk)))
        n_apart, n = n_apart + int(apart.sum()), n + len(rows)
    assert abs(n_apart / n - 0.5) < 3 * 0.5 / n**0.5  # three standard deviations


def test_the_length_of_the_second_text_does_not_tell_whether_it_follows(shards: Shards) -> None:
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for step in range(40):
        pairs, apart = halves(shards, np.arange(len(shards)), (1, step))
        for (_, second), is_apart in zip(pairs, apart, strict=True):
            lengths[bool(is_apart)].append(len(second))
    below = [[np.mean(np.array(lengths[kind]) <= n) for n in range(ROOM)] for kind in (True, False)]
    apart_by_chance = 1.95 * (1 / len(lengths[True]) + 1 / len(lengths[False])) ** 0.5  # Kolmogorov-Smirnov, 0.1 %
    assert np.abs(np.subtract(*below)).max() < apart_by_chance


def test_pairs_are_cut_anew_each_step_and_alike_for_a_row_alone(shards: Shards, masked_tokenizer: Tokenizer) -> None:
    pairs = SentencePairs(masked_tokenizer)
    rows = np.array([4, 9, 2])
    whole, alone = pairs(shards, rows, key=(1, 5)), pairs(shards, rows[1:2], key=(1, 5))
    width = alone.ids.size(1)
    for name in ("ids", "at", "segments", "original"):
        assert torch.equal(getattr(whole, name)[1, :width], getattr(alone, name)[0])
    assert len({tuple(pairs(shards, rows[:1], key=(1, step)).segments.sum(1).tolist()) for step in range(20)}) > 1


def test_a_pair_is_cls_a_sep_b_sep_and_no_special_token_is_hidden(shards: Shards, masked_tokenizer: Tokenizer) -> None:
    batch = SentencePairs(masked_tokenizer)(shards, np.arange(len(shards)), key=(3, 1))
    assert batch.original is not None
    assert batch.segments is not None
    special = torch.tensor([masked_tokenizer.is_silent(id) for id in range(masked_tokenizer.vocab_size)])
    assert not special[batch.targets].any()
    valid = torch.ones_like(batch.at) if batch.valid is None else batch.valid
    assert bool((batch.original[:, 0] == masked_tokenizer.cls_id).all())
    separators = (batch.original == masked_tokenizer.sep_id) & valid
    assert bool((separators.sum(1) == 2).all())
    assert bool((batch.segments[:, 1:].diff(dim=1) >= 0)[valid[:, 2:]].all())
    lasts = batch.segments.gather(1, valid.sum(1, keepdim=True) - 1)
    assert bool((lasts == 1).all())


def test_between_cls_and_sep_stands_the_chunk(shards: Shards, masked_tokenizer: Tokenizer) -> None:
    ids, valid = around(shards, np.array([3, 0, 5]), masked_tokenizer)
    for row, number in enumerate([3, 0, 5]):
        expected = [masked_tokenizer.cls_id, *shards.row(number)[0].tolist(), masked_tokenizer.sep_id]
        assert ids[row][valid[row]].tolist() == expected


def test_of_a_whole_word_all_pieces_are_hidden_or_none(write: Writer, tmp_path: Path) -> None:
    words = ["unhappiness", "running", "houses", "a", "the", "kindness"]
    tokenizer = train([" ".join("abcdefghijklmnopqrstuvwxyz")] * 3 + words[3:5] * 3,
                      TokenizerConfig(kind="wordpiece", vocab_size=90), purpose="masked")  # fmt: skip
    chance = random.Random(0)
    text = "\n".join(" ".join(chance.choices(words, k=12)) for _ in range(300))
    shards = prepare(write("b.txt", text), Chunks(tokenizer, 120), tmp_path / "words")
    ids, valid = around(shards, np.arange(len(shards)), tokenizer)
    batch = Masking(tokenizer, whole_words=True).hide(ids, valid, np.arange(len(shards)), (1, 2))
    goes_on = np.array([tokenizer.token_of(id).startswith("##") for id in range(tokenizer.vocab_size)])[ids]
    at = batch.at.numpy()
    assert goes_on.any()
    assert np.array_equal(at[:, 1:][goes_on[:, 1:]], at[:, :-1][goes_on[:, 1:]])
    n_words = (valid & ~goes_on).sum() - 2 * len(ids)
    hidden = (at & ~goes_on).sum() / n_words
    assert abs(hidden - 0.15) < 4 * (0.15 * 0.85 / n_words) ** 0.5


def test_a_row_must_be_one_text_and_leave_room(write: Writer, masked_tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a row has 2 columns"):
        prepare(write("a.tsv", "a\tb\n"), Chunks(masked_tokenizer, 20), tmp_path / "out")
    with pytest.raises(UserError, match="leaves 1 tokens"):
        Chunks(masked_tokenizer, 1)
