"""Tags are transformers' own, names stand where the user wrote them, and company changes nothing."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import regard
from faults.refusal import refused
from regard.data.words import words_of
from regard.tasks.tagger import Tagger
from regard.text.tags import spans_of
from tasks import theirs
from tasks.span_readers import LABELS, WORDS, model, save, tagger, tokenizer

TEXT = "President Obama flew to San Francisco, the U.S. Secretary O'Brien's e-mail said – naïvely – in 2016."


def text_of(n_words: int, seed: int = 0) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice([*WORDS, "obama's", "zanzibar", "ok."]) for _ in range(n_words))


@pytest.fixture(scope="module")
def tag() -> Tagger:
    return tagger()


@pytest.fixture(params=theirs.FAMILIES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Tagger, Any, Any]:
    """Ours, their model and their tokenizer."""
    vocabulary = request.getfixturevalue(theirs.FAMILIES[request.param][2])
    model, tokenizer = theirs.make(request.param, "TokenClassification", vocabulary, tmp_path)
    ours = regard.load(tmp_path)
    assert isinstance(ours, Tagger)
    return ours, model, tokenizer


@pytest.mark.parity
@pytest.mark.parametrize("text", [TEXT, " ".join([TEXT] * 6)], ids=["short", "long"])
def test_each_word_is_tagged_by_their_scores_at_its_first_token(pair: tuple[Tagger, Any, Any], text: str) -> None:
    """In the window of theirs that shows most on the poorer side of that token."""
    ours, model, tokenizer = pair
    found = tokenizer(
        text, max_length=theirs.MAX_LEN, stride=ours.stride // 8, truncation=True, return_overflowing_tokens=True
    )
    assert len(found["input_ids"]) == 1 or text != TEXT
    windows = []
    for number, ids in enumerate(found["input_ids"]):
        with torch.no_grad():
            scores = model(torch.tensor([ids])).logits[0].softmax(-1)
        windows.append((scores, found.encodings[number].char_to_token, len(ids) - 2))
    tagged = Tagger(ours.model, ours.tokenizer, stride=ours.stride // 8)(text).words
    assert [word.text for word in tagged] == [word.text for word in words_of(text)]
    for word in tagged:
        places = [(at(word.start), scores, n_tokens) for scores, at, n_tokens in windows]
        around = [(min(place - 1, n - place), scores[place]) for place, scores, n in places if place is not None]
        _, expected = max(around, key=lambda each: each[0])
        assert word.tag == LABELS[int(expected.argmax())]
        assert word.score == pytest.approx(float(expected.max()), abs=1e-5)
    assert len({word.tag for word in tagged}) > 1


@given(st.text(max_size=80) | st.lists(st.sampled_from([*WORDS, "Obama", "\u200b", "é", "😀."])).map(" ".join))
@example("\u200b")
@example("Obama\u200bflew \ufe0f to\u00a0San\u2028Francisco \U0001f468\u200d\U0001f469")
def test_names_stand_where_the_user_wrote_them(tag: Tagger, text: str) -> None:
    found = tag(text)
    assert found.text == text
    assert [word[:3] for word in map(tuple, words_of(text))] == [(w.text, w.start, w.end) for w in found.words]
    assert [(entity.label, entity.start, entity.end) for entity in found.entities] == [
        (label, found.words[first].start, found.words[last].end)
        for label, first, last in spans_of([word.tag for word in found.words])
    ]
    for entity in found.entities:
        assert entity.text == text[entity.start : entity.end]
        inside = [word.score for word in found.words if entity.start <= word.start < entity.end]
        assert entity.score == pytest.approx(sum(inside) / len(inside))


def test_a_word_without_a_token_is_outside(tag: Tagger) -> None:
    (zero,) = tag("\u200b").words
    assert (zero.tag, zero.score) == ("O", 1.0)


def test_texts_do_not_depend_on_their_company_or_its_order(tag: Tagger) -> None:
    texts = [text_of(n, seed=n) for n in (3, 40, 0, 7, 90, 1, 12, 40, 5, 21)]
    alone = [tag(text) for text in texts]
    assert [[w.tag for w in each.words] for each in tag.many(texts)] == [[w.tag for w in each.words] for each in alone]
    backwards = list(tag.many(texts[::-1]))[::-1]
    for one, other in zip(alone, backwards, strict=True):
        np.testing.assert_allclose([w.score for w in one.words], [w.score for w in other.words], rtol=0, atol=1e-5)
    assert {label for each in alone for label in (e.label for e in each.entities)} == {"person", "place"}


def test_a_text_that_fits_is_read_whole_whatever_the_stride(tag: Tagger) -> None:
    assert tagger(stride=0)(TEXT[:60]) == tag(TEXT[:60])


def test_strict_tags_agree_and_are_the_likeliest_that_do(tag: Tagger) -> None:
    n_changed = 0
    for seed in range(20):
        free, strict = (tag(text_of(8, seed), strict=strict) for strict in (False, True))
        tags = [word.tag for word in strict.words]
        assert all(tags[span.first].startswith("B-") for span in spans_of(tags))
        n_changed += tags != [word.tag for word in free.words]
        if all(free.words[span.first].tag.startswith("B-") for span in spans_of([word.tag for word in free.words])):
            assert strict == free
    assert n_changed > 5


def test_words_that_are_given_are_tagged_as_they_are_cut(tag: Tagger) -> None:
    rows = [["President", "Obama", "'s"], [], ["", "San Francisco", "\u200b"]]
    found = list(tag.tag_words(rows))
    assert [[word.text for word in each.words] for each in found] == rows
    assert [each.text for each in found] == ["President Obama 's", "", " San Francisco \u200b"]
    assert [word.tag for word in found[2].words][::2] == ["O", "O"]
    plain = tag("President Obama flew")
    assert next(tag.tag_words([["President", "Obama", "flew"]])) == plain


def test_mistaken_calls_say_what_to_write(tag: Tagger) -> None:
    with refused("one text was given", "tag(text)"):
        tag.many("President Obama")
    with refused("one text is expected", "tag.many"):
        tag(["President Obama"])  # type: ignore[arg-type]
    with refused("a list of its words is expected"):
        next(tag.tag_words(["President Obama"]))
    with refused("lone surrogate"):
        tag("\ud800")


def test_weights_that_give_no_number_are_an_error_that_names_the_text() -> None:
    broken = model("tag")
    assert broken.encoder.embed.token is not None
    with torch.no_grad():
        broken.encoder.embed.token.weight[tokenizer().id_of("obama")] = float("nan")
    with refused("text 2: the model's weights give no number"):
        list(Tagger(broken.fuse(), tokenizer()).many(["flew", "obama"]))


def test_a_directory_with_a_head_for_tags_opens_as_a_tagger(tmp_path: Path) -> None:
    ours = regard.load(save(tmp_path, "tag"))
    assert isinstance(ours, Tagger)
    assert ours(TEXT[:60]) == tagger()(TEXT[:60])
    assert ours.summary()
