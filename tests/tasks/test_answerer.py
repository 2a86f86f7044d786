"""The answer is the best of all spans that may be one, stands where the user wrote it, and company changes nothing."""

import math
import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

import regard
from data import vocabularies
from faults.refusal import refused
from regard.data.windows import Window, windows_of
from regard.tasks.answerer import Answer, Answerer, Choice, best_answer
from regard.tasks.windowed import scores_of
from regard.text.tokenizer import Tokenizer
from tasks import theirs
from tasks.span_readers import WORDS, answerer, model, save, tokenizer

TEXT = """President Obama flew to San Francisco – naïvely – on "Air Force One", where O'Brien (the U.S. Secretary) 漢字
e-mailed 😀. The president of the senate, who had been to Paris, France, flew home at 10:30.  """
QUESTION = "Who flew to San Francisco?"
PLAIN = Choice(top=1, max_tokens=30, no_answer=False, threshold=0.0)

texts = st.text(max_size=50) | st.text(
    st.sampled_from("aZé9 .,'\t\u00a0\u0301\u200b\u200d\ufe0f\u4e2d😀🇵½…ﬁ"), max_size=40
)


def text_of(n_words: int, seed: int = 0) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice([*WORDS, "obama's", "zanzibar", "ok."]) for _ in range(n_words))


@pytest.fixture(scope="module")
def answer() -> Answerer:
    return answerer()


@pytest.fixture(scope="session", params=vocabularies.KINDS)
def real(request: pytest.FixtureRequest) -> Tokenizer:
    return vocabularies.opened(vocabularies.directory(request, request.param))


# The search


def twin(text: str, windows: list[Window], scores: list[np.ndarray], choice: Choice) -> list[tuple[int, int, float]]:
    """Every answer and its probability, best first, by trying all pairs of tokens in all windows."""
    found: dict[tuple[int, int], float] = {}
    offsets = {window.first + i: pair for window in windows for i, pair in enumerate(window.offsets)}
    whole = [trimmed(text, *offsets[i]) for i in range(len(offsets))]
    for window, rows in zip(windows, scores, strict=True):
        for i in range(len(window.offsets)):
            for j in range(i, min(len(window.offsets), i + choice.max_tokens)):
                start, end = whole[window.first + i][0], whole[window.first + j][1]
                shown = [each for each in whole[: window.first + i] if each[0] < each[1]]
                after = [each for each in whole[window.first + j + 1 :] if each[0] < each[1]]
                blank = any(left >= right for left, right in (whole[window.first + i], whole[window.first + j]))
                if blank or any(left >= start for left, _ in shown) or any(right <= end for _, right in after):
                    continue
                score = float(rows[window.start + i, 0]) + float(rows[window.start + j, 1])
                found[start, end] = max(score, found.get((start, end), -math.inf))
    whole_words = {place: score for place, score in found.items() if not any(cuts(text, at) for at in place)}
    found = whole_words or found
    if choice.no_answer:
        found[0, 0] = min(float(rows[0, 0]) + float(rows[0, 1]) for rows in scores) - choice.threshold
    total = sum(map(math.exp, found.values()))
    ordered = sorted(found.items(), key=lambda each: -each[1])[: choice.top]
    return [(start, end, math.exp(score) / total) for (start, end), score in ordered]


def cuts(text: str, at: int) -> bool:
    """Whether what stands on both sides of `at` belongs to the same word; Chinese has no spaces between words."""
    if not 0 < at < len(text):
        return False
    before = next((letter for letter in reversed(text[:at]) if not is_mark(letter)), text[0])
    return is_mark(text[at]) or (is_of_a_word(before) and is_of_a_word(text[at]))


def is_of_a_word(letter: str) -> bool:
    return letter.isalnum() and not re.match(
        "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]", letter
    )


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    places = [i for i in range(start, end) if not text[i].isspace()]
    if not places:
        return end, end
    end = places[-1] + 1
    while end < len(text) and is_mark(text[end]):  # which belongs to the letter before it
        end += 1
    return places[0], end


def is_mark(letter: str) -> bool:
    return unicodedata.category(letter).startswith("M") or letter == "\u200d"


def random_scores(windows: list[Window], seed: int) -> list[np.ndarray]:
    chance = np.random.default_rng(seed)
    return [chance.normal(size=(len(window.ids), 2)).astype(np.float32) * 3 for window in windows]


@given(text=texts, max_len=st.integers(8, 30), stride=st.integers(0, 12), seed=st.integers(0, 99), data=st.data())
def test_answers_equal_those_of_trying_all_spans(
    real: Tokenizer, text: str, max_len: int, stride: int, seed: int, data: st.DataObject
) -> None:
    windows = windows_of(real, text, "a", max_len=max_len, stride=stride)
    draw = data.draw
    choice = Choice(draw(st.integers(1, 5)), draw(st.integers(1, 9)), draw(st.booleans()), draw(st.floats(-9, 9)))
    scores = random_scores(windows, seed)
    expected = twin(text, windows, scores, choice)
    assume(expected)
    found = best_answer(text, windows, scores, choice, 1)
    ours = [(each.start, each.end, each.score) for each in (found, *found.alternatives)]
    assert [each[:2] for each in ours] == [each[:2] for each in expected]
    assert [each[2] for each in ours] == pytest.approx([each[2] for each in expected], rel=1e-6, abs=1e-12)


@given(texts)
@example("  Paris \u00a0 in\u2028France")
@example("😀😀 ½ e\u0301")
def test_no_two_answers_are_the_same_piece_and_all_are_likely_together(real: Tokenizer, text: str) -> None:
    windows = windows_of(real, text, "a", max_len=16, stride=5)
    choice = PLAIN._replace(top=10_000, no_answer=True)
    best = best_answer(text, windows, random_scores(windows, 0), choice, 1)
    found = [best, *best.alternatives]
    assert len({(each.start, each.end) for each in found}) == len(found)
    assert sum(each.score for each in found) == pytest.approx(1)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    for each in found:
        assert each.text == text[each.start : each.end] == each.text.strip()
        assert each.text or (each.start, each.end) == (0, 0)


def test_no_answer_is_as_likely_as_the_window_that_believes_in_it_least_says() -> None:
    text = text_of(60)
    windows = windows_of(tokenizer(), text, "who", max_len=40, stride=10)
    scores = [np.zeros((len(window.ids), 2), np.float32) for window in windows]
    assert len(windows) > 2
    for number, rows in enumerate(scores):
        rows[0] = 50.0 if number else 2.0
    san = windows[-1].start + len(windows[-1].offsets) - 1
    scores[-1][san, :] = 1.5, 1.5  # a span of 3 against no answer at 4
    choice = PLAIN._replace(no_answer=True)
    assert best_answer(text, windows, scores, choice, 1).text == ""
    assert best_answer(text, windows, scores, choice._replace(threshold=0.9), 1).text == ""
    assert best_answer(text, windows, scores, choice._replace(threshold=1.1), 1).text
    assert best_answer(text, windows, scores, PLAIN, 1).text


def test_answers_are_whole_words_where_one_is_short_enough() -> None:
    text = "Anna Tregear built 漢字 it."
    windows = windows_of(tokenizer(), text, "who", max_len=40, stride=10)  # letter by letter
    for seed in range(20):
        best = best_answer(text, windows, random_scores(windows, seed), PLAIN._replace(top=100), 1)
        found = {each.text for each in (best, *best.alternatives)}
        assert {"Anna", "Tregear", "Anna Tregear", "漢"} <= found
        assert not {"Trege", "nna", "Tregear buil"} & found
    accents = "Jose\u0301 \u0939\u093f\u0928\u094d\u0926\u0941 flew"
    windows = windows_of(tokenizer(), accents, "who", max_len=40, stride=10)  # which throws accents away
    best = best_answer(accents, windows, random_scores(windows, 0), PLAIN._replace(top=100), 1)
    assert {"Jose\u0301", accents} <= {each.text for each in (best, *best.alternatives)}
    long = windows_of(tokenizer(), "Tregear", "who", max_len=40, stride=10)
    assert len(best_answer("Tregear", long, random_scores(long, 0), PLAIN._replace(max_tokens=3), 1).text) <= 3


# The model


@pytest.mark.parity
@pytest.mark.parametrize("family", theirs.FAMILIES)
def test_scores_of_starts_and_ends_equal_theirs(family: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    vocabulary = request.getfixturevalue(theirs.FAMILIES[family][2])
    model, tokenizer = theirs.make(family, "QuestionAnswering", vocabulary, tmp_path)
    ours = regard.load(tmp_path)
    assert isinstance(ours, Answerer)
    windows = windows_of(ours.tokenizer, TEXT, QUESTION, max_len=40, stride=10)
    (scores,) = scores_of(ours.model, "span", [windows])
    found = tokenizer(
        QUESTION,
        TEXT,
        max_length=40,
        stride=10,
        truncation="only_second",
        return_overflowing_tokens=True,
        padding=True,
        return_tensors="pt",
    )
    del found["overflow_to_sample_mapping"]
    with torch.no_grad():
        expected = model(**found)
    assert len(windows) >= 3
    for number, window in enumerate(windows):
        n_ids = len(window.ids)
        for column, logits in enumerate((expected.start_logits, expected.end_logits)):
            np.testing.assert_allclose(scores[number][:, column], logits[number, :n_ids], rtol=0, atol=1e-5)
    best = Answerer(ours.model, ours.tokenizer, max_len=40, stride=10)(QUESTION, TEXT, top=5)
    assert [(a.start, a.end) for a in (best, *best.alternatives)] == [
        (start, end) for start, end, _ in twin(TEXT, windows, scores, PLAIN._replace(top=5))
    ]


def test_answers_do_not_depend_on_their_company_or_its_order(answer: Answerer) -> None:
    pairs = [(f"who {WORDS[n % 7]}", text_of(n, seed=n)) for n in (3, 60, 9, 7, 150, 1, 12, 60, 5, 21)]
    alone = [answer(*pair, top=3) for pair in pairs]
    for found in (list(answer.many(pairs, top=3)), list(answer.many(pairs[::-1], top=3))[::-1]):
        assert [spans(each) for each in found] == [spans(each) for each in alone]
        assert [each.score for each in found] == pytest.approx([each.score for each in alone], abs=1e-5)
    assert len({each.text for each in alone}) > 5


def spans(found: Answer) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in (found, *found.alternatives)]


def test_a_text_that_fits_is_read_whole_whatever_the_stride(answer: Answerer) -> None:
    text = text_of(12)
    assert (
        answerer(stride=0)("who", text, top=3) == answerer(stride=30)("who", text, top=3) == answer("who", text, top=3)
    )


def test_an_answer_is_at_most_as_long_as_asked(answer: Answerer) -> None:
    text = " ".join(WORDS * 12)
    for longest in (1, 2, 5):
        best = answer("who", text, max_tokens=longest, top=50)
        assert max(len(each.text.split()) for each in (best, *best.alternatives)) == longest


def test_mistaken_calls_say_what_is_wrong_with_which_question(answer: Answerer) -> None:
    with refused("question 2 is empty"):
        list(answer.many([("who", "obama"), (" ", "obama")]))
    with refused("question 2: the text has nothing to answer from"):
        list(answer.many([("who", "obama"), ("who", " \u200b")]))
    with refused("question 2: the model reads 64 tokens at once", "shorten the question"):
        list(answer.many([("who", "obama"), ("who " * 60, "obama")]))
    with refused("the best 0 answers"):
        answer("who", "obama", top=0)
    with refused("at most 0 tokens"):
        answer("who", "obama", max_tokens=0)
    with refused("threshold of nan"):
        answer("who", "obama", no_answer=True, threshold=math.nan)
    assert answer("who", "", no_answer=True) == Answer("", 0, 0, 1.0)


def test_weights_that_give_no_number_are_an_error_that_names_the_text() -> None:
    broken = model("span")
    assert broken.encoder.embed.token is not None
    with torch.no_grad():
        broken.encoder.embed.token.weight[tokenizer().id_of("obama")] = math.inf
    with refused("text 2: the model's weights give no number"):
        list(Answerer(broken.fuse(), tokenizer()).many([("who", "flew"), ("who", "obama")]))


def test_a_directory_with_a_head_for_spans_opens_as_an_answerer(tmp_path: Path, answer: Answerer) -> None:
    ours: Any = regard.load(save(tmp_path, "span"))
    assert isinstance(ours, Answerer)
    assert ours("who", TEXT) == answer("who", TEXT)
    assert ours.summary()
