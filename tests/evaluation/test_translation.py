"""BLEU and chrF are sacrebleu's own numbers, with its signature."""

from collections.abc import Callable

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.errors import UserError
from regard.evaluation.score import Score
from regard.evaluation.translation import bleu, chrf

HYPOTHESES = ["The cat sat on the mat .", "A dog barks loudly .", "It is raining"]
REFERENCES = ["The cat is on the mat .", "A dog barks .", "It rains today"]
Metric = Callable[..., Score]


def test_scores_are_sacrebleus() -> None:
    assert bleu(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score


def test_the_signature_says_how_it_was_counted() -> None:
    signature = bleu(HYPOTHESES, REFERENCES).signature
    assert "tok:13a" in signature
    assert "case:mixed" in signature


def test_the_interval_holds_the_score() -> None:
    score = bleu(HYPOTHESES * 20, REFERENCES * 20, bootstrap=100)
    assert score.low is not None
    assert score.high is not None
    assert score.low <= score.value <= score.high
    assert "[" in str(score)


@pytest.mark.parity
@pytest.mark.parametrize(("metric", "oracle"), [(bleu, BLEU), (chrf, CHRF)])
def test_the_interval_and_its_signature_are_sacrebleus(metric: Metric, oracle: type[BLEU | CHRF]) -> None:
    ours = metric(HYPOTHESES * 20, REFERENCES * 20, bootstrap=100)
    counter = oracle(references=None)
    theirs = counter.corpus_score(HYPOTHESES * 20, [REFERENCES * 20], n_bootstrap=100)
    assert ours.value == theirs.score
    assert ours.low == pytest.approx(theirs._mean - theirs._ci, abs=1e-4)
    assert ours.high == pytest.approx(theirs._mean + theirs._ci, abs=1e-4)
    assert ours.signature == str(counter.get_signature())
    assert "bs:100|seed:12345" in ours.signature


@pytest.mark.parametrize("metric", [bleu, chrf])
@pytest.mark.parametrize("bootstrap", [0, 1, 50])
@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([""], ["a"]),
        (["a"], [""]),
        (["", ""], ["", ""]),
        (["x", "y"], ["a", "b"]),
        # Some samples match nowhere and some do: sacrebleu's mean of these is a TypeError.
        (["the cat", "x", "y", ""], ["the cat", "a", "", "b"]),
    ],
)
def test_empty_and_hopeless_translations_have_a_score(
    metric: Metric, bootstrap: int, hypotheses: list[str], references: list[str]
) -> None:
    score = metric(hypotheses, references, bootstrap=bootstrap)
    assert 0 <= score.value <= 100
    assert (score.low is None) == (bootstrap == 0)
    if score.low is not None and score.high is not None:
        assert score.low <= score.high <= 150


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_nothing_and_uneven_lists_are_refused(metric: Metric) -> None:
    with pytest.raises(UserError, match="no sentence to score"):
        metric([], [])
    with pytest.raises(UserError, match="1 translations for 2 references"):
        metric(["a"], ["a", "b"])
