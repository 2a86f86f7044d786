"""Windows are those of transformers, lose nothing, and find every word and every answer once they hold it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
from hypothesis import assume, given
from hypothesis import strategies as st

from data import vocabularies
from data.words import WORDS, make_tokenizer
from faults.refusal import refused
from regard.data.windows import IGNORED, Window, labels_of, offsets_of, places_of, span_of, windows_of
from regard.data.words import first_tokens, words_of

TEXT = (
    """The Norman dynasty had a major political, cultural and military impact on medieval Europe, naïvely put – and even
the Near East. "Robert Guiscard", 10th-century (c. 1015–1085)!  Ωmega, 漢字 and 😀 emoji. """
    * 3
)
QUESTION = "Who had an impact on mediæval Europe?"
SIZES = [(40, 0), (40, 7), (41, 12), (64, 20), (512, 128)]

numbers = st.integers(0, 40)


def text_of(n_words: int) -> str:
    """With as many tokens, all of which are words."""
    return " ".join(WORDS[i % len(WORDS)] for i in range(n_words))


def cut(text: str, max_len: int = 12, stride: int = 4) -> list[Window]:
    return windows_of(make_tokenizer(), text, max_len=max_len, stride=stride)


@pytest.mark.parity
@pytest.mark.parametrize(("kind", "cls"), [("bert", "BertTokenizerFast"), ("roberta", "RobertaTokenizerFast")])
def test_windows_equal_those_of_transformers(request: pytest.FixtureRequest, kind: str, cls: str) -> None:
    directory: Path = vocabularies.directory(request, kind)
    theirs: Any = getattr(hf, cls).from_pretrained(directory)
    ours = vocabularies.opened(directory)
    more = {"return_overflowing_tokens": True, "return_offsets_mapping": True, "return_token_type_ids": True}
    for max_len, stride in SIZES:
        for question in (None, QUESTION):
            texts = (TEXT,) if question is None else (question, TEXT)
            how = "longest_first" if question is None else "only_second"
            found = theirs(*texts, max_length=max_len, stride=stride, truncation=how, **more)
            windows = windows_of(ours, TEXT, question, max_len=max_len, stride=stride)
            assert [window.ids for window in windows] == found["input_ids"]
            assert [window.segments for window in windows] == found["token_type_ids"]
            for number, window in enumerate(windows):
                part = [i for i, p in enumerate(found.sequence_ids(number)) if p == len(texts) - 1]
                assert part == list(range(len(window.ids)))[window.text_ids]
                assert window.offsets == [found["offset_mapping"][number][i] for i in part]
        assert len(windows) > 1 or max_len == 512


@given(st.integers(0, 60), st.integers(2, 20), numbers)
def test_every_token_is_in_a_window_and_neighbours_share_the_stride(n_words: int, max_len: int, stride: int) -> None:
    text = text_of(n_words)
    windows = cut(text, max_len, stride)
    shared = min(stride, (max_len - 1) // 2)
    assert offsets_of(windows) == make_tokenizer().encode(text, special=False).offsets
    assert all(len(window.ids) <= max_len for window in windows)
    for one, other in pairwise(windows):
        assert len(one.ids) == max_len
        assert one.offsets[len(one.offsets) - shared :] == other.offsets[:shared]
        assert text[one.covers[1] :].startswith(text[slice(*other.offsets[shared])])
    assert windows[0].covers[0] == 0
    assert windows[-1].covers[1] == len(text)


def test_a_text_without_tokens_is_one_empty_window() -> None:
    (window,) = cut("  ")
    assert window.ids == [0]
    assert (window.offsets, window.covers) == ([], (0, 2))
    assert span_of(window, 0, 2) == (0, 0)


@given(st.integers(1, 60), st.integers(3, 20), numbers)
def test_a_token_is_read_where_the_poorer_side_is_richest(n_words: int, max_len: int, stride: int) -> None:
    windows = cut(text_of(n_words), max_len, stride)

    def poorer(number: int, token: int) -> int:
        window = windows[number]
        return min(token - window.first, window.first + len(window.offsets) - 1 - token)

    for token, place in enumerate(places_of(windows, range(n_words))):
        assert place is not None
        number, at = place
        assert windows[number].first + at - windows[number].start == token
        assert poorer(number, token) == max(poorer(i, token) for i in range(len(windows)))


def test_each_word_is_labelled_once_at_its_first_token(request: pytest.FixtureRequest) -> None:
    for kind in vocabularies.KINDS:
        tokenizer = vocabularies.opened(vocabularies.directory(request, kind))
        words = words_of(TEXT + "\u200b x")
        windows = windows_of(tokenizer, TEXT + "\u200b x", max_len=40, stride=10)
        firsts = first_tokens(TEXT + "\u200b x", words, offsets_of(windows))
        rows = labels_of(windows, firsts, range(len(words)))
        assert [len(row) for row in rows] == [len(window.ids) for window in windows]
        found = [
            (label, window.first + at - window.start)
            for window, row in zip(windows, rows, strict=True)
            for at, label in enumerate(row)
            if label != IGNORED
        ]
        assert sorted(found) == [(i, token) for i, token in enumerate(firsts) if token is not None]


# Answers


@given(st.integers(1, 40), st.integers(4, 20), numbers, st.data())
def test_an_answer_is_found_in_exactly_the_windows_that_hold_it_whole(
    n_words: int, max_len: int, stride: int, data: st.DataObject
) -> None:
    text = text_of(n_words)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, min(len(text), start + 20)))
    assume(text[start:end].strip())
    windows = cut(text, max_len, stride)
    touched = [i for i, (left, right) in enumerate(offsets_of(windows)) if left < end and start < right]
    for window in windows:
        found = span_of(window, start, end)
        if window.first <= touched[0] and touched[-1] < window.first + len(window.offsets):
            assert found == tuple(window.start + i - window.first for i in (touched[0], touched[-1]))
        elif text[start] != " " != text[end - 1]:  # a space belongs to no token and may hang over the edge
            assert found == (0, 0)


def test_the_tokens_of_an_answer_show_it(request: pytest.FixtureRequest) -> None:
    answers = ["Norman", "impact on medieval Europe", "1015–1085", "漢字 and 😀", "😀", "Ωmega", '"Robert Guiscard"']
    for kind in vocabularies.KINDS:
        tokenizer = vocabularies.opened(vocabularies.directory(request, kind))
        for answer in answers:
            at = TEXT.index(answer)
            for window in windows_of(tokenizer, TEXT, QUESTION, max_len=64, stride=24):
                first, last = span_of(window, at, at + len(answer))
                if (first, last) == (0, 0):
                    continue
                start, end = window.offsets[first - window.start][0], window.offsets[last - window.start][1]
                assert answer in TEXT[start:end]
                assert len(TEXT[start:end].strip()) <= len(answer) + 1  # some vocabularies join signs: `."`
            assert any(
                span_of(window, at, at + len(answer)) != (0, 0)
                for window in windows_of(tokenizer, TEXT, QUESTION, max_len=64, stride=24)
            )


def test_too_long_a_question_is_refused_and_not_cut() -> None:
    tokenizer = make_tokenizer()
    assert windows_of(tokenizer, "w1", text_of(20), max_len=40)
    with refused("the model reads 40 tokens at once", "the question", "are 31", "at least 10 must be left"):
        windows_of(tokenizer, "w1", text_of(31), max_len=40)
    with refused("the model reads 1 tokens at once", "are 1"):
        windows_of(tokenizer, "w1", max_len=1)
