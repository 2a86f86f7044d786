"""Exact match and F1 as SQuAD 2.0's definition gives them; the numbers are worked out by hand."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.refusal import refused
from regard.evaluation.answers import answer_f1, exact_match, normalised


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The  Eiffel\tTower.", "eiffel tower"),
        ("an apple, a day", "apple day"),
        ("anthem of the Athens theatre", "anthem of athens theatre"),  # articles are whole words
        ("U.S.A.", "usa"),  # punctuation leaves no gap,
        ("jack-of-all-trades", "jackofalltrades"),
        ("t.h.e. end", "end"),  # and goes before the articles
        ("'the'", ""),
        ("$3.50", "350"),
        (string.punctuation, ""),
        # Only ASCII punctuation: these stay, and end a word, so that an article beside them still goes.
        ("“quoted”", "“quoted”"),
        ("1914–1918", "1914–1918"),
        ("the—end", "—end"),
        ("¿a?", "¿"),
        ("l’an 2000", "l’ 2000"),
        ("á a ª", "á ª"),  # an accented letter is another letter
        ("The\u00a0End\u3000now", "end now"),
        ("ÅNGSTRÖM İ", "ångström i̇"),
        ("_the_", ""),
    ],
)
def test_answers_are_compared_in_their_plain_form(text: str, plain: str) -> None:
    assert normalised(text) == plain


@given(st.text())
def test_a_plain_form_holds_no_ascii_punctuation_and_no_double_space(text: str) -> None:
    plain = normalised(text)
    assert not set(plain) & set(string.punctuation)
    assert plain == " ".join(plain.split())
    assert not {"a", "an", "the"} & set(plain.split())


@pytest.mark.parametrize(
    ("predicted", "golds", "exact", "f1"),
    [
        ("The Broncos!", ["broncos"], 1, 1),
        ("Denver Broncos", ["Broncos"], 0, 2 / 3),  # precision 1/2, recall 1
        ("Denver", ["Denver Broncos", "Denver"], 1, 1),  # the best over the gold answers
        ("in the Denver area", ["Denver Broncos", "Carolina"], 0, 2 / 5),  # precision 1/3, recall 1/2
        ("no no no", ["no"], 0, 1 / 2),  # words count as often as they stand
        ("no no", ["no no yes"], 0, 4 / 5),
        ("Carolina", ["Denver"], 0, 0),
        # No answer: right only if nothing is said, and what is plain nothing is nothing.
        ("", [], 1, 1),
        ("the ...", [], 1, 1),
        ("Denver", [], 0, 0),
        ("", ["Denver"], 0, 0),
        # A gold answer of punctuation alone is none; if it was the only one, the question has no answer.
        ("", ["Denver", "."], 0, 0),
        ("", ["."], 1, 1),
        (".", ["."], 1, 1),
    ],
)
def test_a_prediction_is_scored_against_the_best_gold_answer(
    predicted: str, golds: list[str], exact: float, f1: float
) -> None:
    assert exact_match([predicted], [golds]).value == pytest.approx(exact * 100)
    assert answer_f1([predicted], [golds]).value == pytest.approx(f1 * 100)


def test_the_score_is_the_mean_over_questions_with_its_interval() -> None:
    predicted, gold = ["x", "x y", "", "z"] * 25, [["x"], ["y"], [], ["x"]] * 25
    exact, f1 = (metric(predicted, gold, bootstrap=200) for metric in (exact_match, answer_f1))
    assert (exact.value, f1.value) == pytest.approx((50.0, 100 * (1 + 2 / 3 + 1) / 4))
    assert exact.low < 50 < exact.high  # type: ignore[operator]
    assert str(exact).startswith("exact-match 50.00 [")
    assert "squad:2.0" in f1.signature


@given(st.lists(st.tuples(st.text("ab .", max_size=8), st.lists(st.text("ab .", max_size=8))), min_size=1))
def test_f1_is_never_below_exact_match(rows: list[tuple[str, list[str]]]) -> None:
    predicted, gold = zip(*rows, strict=True)
    assert 0 <= exact_match(predicted, gold).value <= answer_f1(predicted, gold).value + 1e-9 <= 100 + 1e-6


def test_what_cannot_be_scored_is_refused() -> None:
    with refused("no answers"):
        exact_match([], [])
    with refused("1 predicted answers for 2"):
        answer_f1(["a"], [["a"], []])
    with pytest.raises(AssertionError, match="list of gold"):
        exact_match(["no"], ["no"])
