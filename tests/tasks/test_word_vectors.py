"""Near words and sums of words on planted vectors, files that others open, and vectors of words in their places."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.data.vectors import write_word2vec
from regard.errors import UserError
from regard.models.base import initialise
from regard.models.elmo import Elmo, ElmoConfig
from regard.tasks.context_vectors import ContextVectors
from regard.tasks.word_vectors import WordVectors
from regard.text.sums import sum_of
from regard.text.train import TokenizerConfig, train
from tasks.planted import PLANTED, save, tokenizer


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("planted"))


def test_a_sum_of_planted_vectors_finds_its_word(planted: Path) -> None:
    words = regard.load(planted)
    assert isinstance(words, WordVectors)
    assert words.analogy("man + aunt - uncle").answers[0].word == "woman"
    assert words.analogy("uncle aunt man") == words.analogy("aunt + man - uncle")
    assert words.analogy("Brother - uncle + AUNT").answers[0].word == "sister"
    assert words.nearest(["bank"], top=1)[0].word == "river"


def test_scores_are_cosines_and_the_words_asked_about_are_no_answers(planted: Path) -> None:
    words = regard.load(planted)
    found = words.nearest(["man"], top=100)
    assert {near.word for near in found} == set(PLANTED) - {"man"}  # no special tokens either
    for near in found:
        a, b = np.array(PLANTED["man"]), np.array(PLANTED[near.word])
        assert near.score == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert [near.score for near in found] == sorted((near.score for near in found), reverse=True)


def test_an_unknown_word_is_refused_with_what_is_spelt_like_it(planted: Path) -> None:
    words = regard.load(planted)
    with pytest.raises(UserError, match="'womann' is not known") as caught:
        words.analogy("womann")
    assert caught.value.hint == "did you mean woman or man?"
    with pytest.raises(UserError, match="'<pad>' is not known"):
        words["<pad>"]
    with pytest.raises(UserError, match="input line 12: no word of 'qq' is known"):
        words(["man", "qq"], first=11)


def test_a_text_is_the_mean_of_its_known_words(planted: Path) -> None:
    words = regard.load(planted)
    np.testing.assert_allclose(words(["The man, an uncle"])[0], (words["man"] + words["uncle"]) / 2)
    (placed,) = words.in_place(["no uncle"])
    assert [(each.word, each.start, each.end) for each in placed] == [("no", 0, 2), ("uncle", 3, 8)]
    assert placed[0].vector is None
    assert (placed[1].vector == words["uncle"]).all()


@given(st.lists(st.tuples(st.sampled_from("+-"), st.sampled_from(list(PLANTED))), min_size=1, max_size=6))
def test_a_sum_is_read_as_it_is_written(terms: list[tuple[str, str]]) -> None:
    terms[0] = ("+", terms[0][1])
    text = " ".join(f"{sign} {word}" for sign, word in terms).removeprefix("+ ")
    plus, minus = sum_of(text)
    assert plus == tuple(word for sign, word in terms if sign == "+")
    assert minus == tuple(word for sign, word in terms if sign == "-")
    assert sum_of(text.replace(" ", "")) == (plus, minus)


@pytest.mark.parametrize(
    "text", ["", "man +", "man + - aunt", "- man", "man uncle", "a b c d", "+", "man uncle - aunt"]
)
def test_what_is_no_sum_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is no sum of words"):
        sum_of(text)


@pytest.mark.parity
def test_the_text_file_opens_in_gensim_with_the_same_vectors(planted: Path, tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim.models")
    ours = regard.load(planted)
    chance = np.random.default_rng(0).standard_normal(ours.table.shape).astype(np.float32) * 1e-3
    write_word2vec(tmp_path / "v.txt", ours.words, ours.table + chance)
    theirs = gensim.KeyedVectors.load_word2vec_format(tmp_path / "v.txt", binary=False)
    assert theirs.index_to_key == ours.words
    assert (theirs.vectors == ours.table + chance).all()


def test_the_text_file_has_a_head_and_a_word_a_line(planted: Path, tmp_path: Path) -> None:
    ours = regard.load(planted)
    write_word2vec(tmp_path / "v.txt", ours.words, ours.table)
    head, *lines = (tmp_path / "v.txt").read_text().splitlines()
    assert head == f"{len(PLANTED)} 4"
    back = {line.split()[0]: [np.float32(x) for x in line.split()[1:]] for line in lines}
    assert all((back[word] == ours[word]).all() for word in PLANTED)


def test_the_same_word_has_another_vector_in_another_sentence() -> None:
    words = tokenizer()
    torch.manual_seed(0)
    model = Elmo(ElmoConfig(vocab_size=words.vocab_size, d_model=16, heads=())).eval()
    initialise(model, std=0.5)
    embed = ContextVectors(model, words)
    texts = ["the bank of the river", "a bank", "my uncle went to the bank of the river with his brother"]
    first, second, third = embed.in_place(texts)
    assert [each.word for each in first] == texts[0].split()
    banks = [each.vector for row in (first, second, third) for each in row if each.word == "bank"]
    assert all(np.abs(a - b).max() > 0.01 for a, b in [(banks[0], banks[1]), (banks[0], banks[2])])
    (alone,) = embed.in_place(texts[1:2])  # whatever texts are beside it
    np.testing.assert_allclose(alone[1].vector, banks[1], atol=1e-6)
    np.testing.assert_allclose(embed(texts)[1], np.mean([each.vector for each in second], axis=0), atol=1e-6)
    assert embed([""]).shape == (1, 16)


def test_a_word_of_several_pieces_has_one_vector_their_mean() -> None:
    texts = ["the bank of the river", "the banker rivers the bank"]
    pieces = train(texts, TokenizerConfig("wordpiece", 34), purpose="words")
    model = Elmo(ElmoConfig(vocab_size=pieces.vocab_size, d_model=16, heads=())).eval()
    initialise(model, std=0.5)
    embed = ContextVectors(model, pieces)
    (row,) = embed.in_place(texts[1:])
    assert [(each.word, each.start) for each in row] == [
        ("the", 0),
        ("banker", 4),
        ("rivers", 11),
        ("the", 18),
        ("bank", 22),
    ]
    tokens = pieces.encode(texts[1], special=False)
    assert len(tokens) > len(row)
    before, after = ([id] if id is not None else [] for id in (pieces.bos_id, pieces.eos_id))
    with torch.inference_mode():
        vectors = model.vectors(torch.tensor([[*before, *tokens.ids, *after]]))[0, len(before) :]
    inside = [place for place, (start, end) in enumerate(tokens.offsets) if start >= 4 and end <= 10]
    np.testing.assert_allclose(row[1].vector, vectors[inside].mean(0).numpy(), atol=1e-6)
