"""The association test is the published one, worked out by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

import regard
from lab.probe import toys
from models import tiny
from regard.errors import UserError
from regard.lab.probe import association
from regard.lab.probe.association import SENTENCES, Association, Associations, effect_size, known, nearness, p_value
from regard.lab.probe.sets import Rows, shipped
from regard.lab.probe.table import ready
from regard.tasks.embedder import Embedder
from regard.tasks.sentence_settings import SentenceSettings
from tasks import planted

WORDS = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]])
A, B = np.array([[2.0, 0.0]]), np.array([[0.0, 3.0]])


def test_effect_and_p_value_by_hand() -> None:
    nearer = nearness(WORDS, A, B)
    assert nearer == pytest.approx([1, 0.2, -1, -0.2])
    # means 0.6 and -0.6; the four lie around 0 with squares 1, 0.04, 1, 0.04
    assert effect_size(nearer) == pytest.approx(1.2 / math.sqrt(2.08 / 3))
    assert p_value(nearer, seed=0) == (pytest.approx(1 / 6), 6)  # itself: no other way has as large a first half
    assert p_value(nearer[::-1], seed=0) == (1, 6)


def test_words_that_are_all_alike_have_no_effect() -> None:
    nearer = nearness(np.ones((6, 2)), A, B)
    assert effect_size(nearer) == 0
    assert p_value(nearer, seed=0)[0] == 1


def test_many_ways_are_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    nearer = np.random.default_rng(0).normal(size=12)
    exact, n_ways = p_value(nearer, seed=0)
    assert n_ways == math.comb(12, 6)
    monkeypatch.setattr(association, "EXACT", 900)
    drawn = [p_value(nearer, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == (pytest.approx(exact, abs=0.06), 900)


def test_a_models_own_sentences_are_compared() -> None:
    test = Association(name="t", x=("red", "blue"), y=("one", "two"), a=("sun",), b=("moon",))
    words = [*test.x, *test.y, *test.a, *test.b]
    texts = [sentence.replace("{word}", word) for word in words for sentence in SENTENCES]
    tokenizer = toys.vocabulary(texts, around=True)
    model = tiny.make("bert", vocab_size=tokenizer.vocab_size, heads=())
    embed = Embedder(model, tokenizer, SentenceSettings())
    (found,) = Associations(embed, Rows("", "", (test,)), 0).outcomes()
    vectors = embed(texts).astype(float).reshape(6, len(SENTENCES), -1).mean(1)
    assert found.effect == pytest.approx(effect_size(nearness(vectors[:4], vectors[4:5], vectors[5:])))


def test_what_ships_can_be_tried_in_all_ways() -> None:
    for test in shipped("associations", Association).rows:
        assert math.comb(2 * len(test.x), len(test.x)) <= association.EXACT
        assert not set(test.x) & set(test.y)


def test_uneven_kinds_are_refused() -> None:
    with pytest.raises(UserError, match="not as many words"):
        Association(name="t", x=("a", "b"), y=("c",), a=("d",), b=("e",))


def test_word_vectors_are_compared_as_they_are_and_unknown_words_left_out(tmp_path: Path) -> None:
    words = regard.load(planted.save(tmp_path))
    test = Association(
        name="kin", x=("uncle", "zanzibar", "brother"), y=("aunt", "sister", "river"), a=("man",), b=("woman", "qwz")
    )
    (found,) = Associations(words, Rows("own", "", (test,)), 0).outcomes()
    assert (found.test.x, found.test.y, found.test.b) == (("uncle", "brother"), ("aunt", "sister"), ("woman",))
    assert found.n_unknown == 3
    table = np.stack([words[word] for word in ("uncle", "brother", "aunt", "sister")]).astype(float)
    nearer = nearness(table, *(words[word][None].astype(float) for word in ("man", "woman")))
    assert found.effect == pytest.approx(effect_size(nearer))
    (measure,) = Associations(words, Rows("own", "", (test,)), 0).measures([found])
    assert "3 words left out" in measure.note
    unknown = Association(name="none", x=("q", "z"), y=("k", "j"), a=("man",), b=("woman",))
    assert known(unknown, words) is None
    (part,) = ready([Associations(words, Rows("own", "", (test, unknown)), 0)])
    assert (part.total, part.rows.name) == (1, "own (1 of words that are not known, left out)")
