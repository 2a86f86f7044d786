"""Texts with labels, numbers, tags and answers: what the columns hold comes back as tensors."""

from pathlib import Path

import numpy as np
import pytest
import torch

from data.words import Writer
from regard.data.answered import Answered, answer_place, collate_answers
from regard.data.labelled import Labelled, collate_labelled
from regard.data.shards import prepare
from regard.data.tagged import Tagged, collate_tagged
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig, train


@pytest.fixture(scope="module")
def bert() -> Tokenizer:
    texts = ["the red dog saw a blue cat in Berlin . what did it see ?"] * 3
    return train(texts, TokenizerConfig(kind="wordpiece", vocab_size=120, min_frequency=1), purpose="masked")


def test_labels_and_pairs_come_back(write: Writer, bert: Tokenizer, tmp_path: Path) -> None:
    rows = "the red dog\ta blue cat\tyes\nthe cat\ta dog saw it\tno\n"
    shards = prepare(write("a.tsv", rows), Labelled(bert, ("no", "yes"), 30), tmp_path / "out")
    batch = collate_labelled(shards, np.array([0, 1]), pad_id=0, class_weights=torch.tensor([1.0, 3.0]))
    assert batch.labels.tolist() == [1, 0]
    assert batch.weights.tolist() == [3.0, 1.0]
    assert batch.segments is not None
    for i, (one, other) in enumerate([("the red dog", "a blue cat"), ("the cat", "a dog saw it")]):
        expected = bert.encode(one, other)
        assert batch.ids[i][: len(expected)].tolist() == expected.ids
        assert batch.segments[i][: len(expected)].tolist() == expected.segments


@pytest.mark.parametrize("value", ["0", "-1.5", "3.1415927", "1e-30", "65504.25"])
def test_numbers_come_back_exactly(value: str, write: Writer, bert: Tokenizer, tmp_path: Path) -> None:
    shards = prepare(write("a.tsv", f"the dog\t{value}\n"), Labelled(bert, (), 30), tmp_path / "out")
    batch = collate_labelled(shards, np.array([0]), pad_id=0, class_weights=None)
    assert batch.labels.tolist() == [float(np.float32(value))]
    assert batch.segments is None


def test_wrong_labels_and_holes_are_named_by_their_line(write: Writer, bert: Tokenizer, tmp_path: Path) -> None:
    labelled = Labelled(bert, ("no", "yes"), 30, {"1": "yes"})
    shards = prepare(write("a.tsv", "the dog\t1\n\tyes\n"), labelled, tmp_path / "out")
    assert (shards.stats.kept, shards.stats.empty) == (1, 1)
    with pytest.raises(UserError, match=r"b\.tsv, line 2: the label is 'maybe'"):
        prepare(write("b.tsv", "the dog\tyes\nthe cat\tmaybe\n"), labelled, tmp_path / "wrong")
    with pytest.raises(UserError, match=r"c\.tsv, line 1: 'many' is not a number"):
        prepare(write("c.tsv", "the dog\tmany\n"), Labelled(bert, (), 30), tmp_path / "wrong")
    with pytest.raises(UserError, match="a row has 1 columns"):
        prepare(write("d.tsv", "the dog\n"), labelled, tmp_path / "wrong")


@pytest.mark.parametrize("max_len", [8, 40])
def test_every_word_is_tagged_once_however_a_sentence_is_cut(
    max_len: int, write: Writer, bert: Tokenizer, tmp_path: Path
) -> None:
    words, tags = (
        ["the", "red", "dog", "saw", "a", "blue", "cat", "in", "Berlin", "."],
        ["O", "B-C", "O", "O", "O", "B-C", "O", "O", "B-L", "O"],
    )
    rows = f"{' '.join(words)}\t{' '.join(tags)}\n"
    tagged = Tagged(bert, ("O", "B-C", "B-L"), max_len)
    shards = prepare(write("a.tsv", rows), tagged, tmp_path / "out")
    batch = collate_tagged(shards, np.arange(len(shards)), pad_id=0)
    assert batch.ids.size(1) <= max_len
    assert sorted(batch.targets.tolist()) == sorted(tagged.labels.index(tag) for tag in tags)
    firsts = [bert.encode(word, special=False).ids[0] for word in words]
    assert sorted(batch.ids[batch.at].tolist()) == sorted(firsts)
    with pytest.raises(UserError, match=r"b\.tsv, line 1: there are 2 words and 1 tags"):
        prepare(write("b.tsv", "the dog\tO\n"), tagged, tmp_path / "wrong")


def test_an_answer_is_where_its_characters_are(write: Writer, bert: Tokenizer, tmp_path: Path) -> None:
    context = "the red dog saw a blue cat in Berlin ."
    rows = f"what did it see ?\t{context}\tblue cat\nwhat ?\t{context}\t\n"
    for max_len in (14, 60):
        shards = prepare(write("a.tsv", rows), Answered(bert, max_len), tmp_path / str(max_len))
        batch = collate_answers(shards, np.arange(len(shards)), pad_id=0)
        found = [
            bert.decode(ids[first : last + 1].tolist())
            for ids, (first, last) in zip(batch.ids, batch.spans.tolist(), strict=True)
            if last
        ]
        assert found
        assert set(found) == {"blue cat"}
        for row, (first, last) in enumerate(batch.spans.tolist()):
            assert batch.open[row, first]
            assert batch.open[row, last]
    assert batch.spans.tolist()[1] == [0, 0]


def test_an_answer_that_is_not_there_is_refused(write: Writer, bert: Tokenizer, tmp_path: Path) -> None:
    assert answer_place(("q", "a b a", "a", "4")) == (4, 5)
    assert answer_place(("q", "a b a", "a")) == (0, 1)
    for row, told in {
        ("q", "a b", "c"): "does not stand in",
        ("q", "a b", "b", "0"): "at character 0",
        ("q", "a b", "b", "x"): "starts at 'x'",
    }.items():
        with pytest.raises(UserError, match=told):
            answer_place(row)
