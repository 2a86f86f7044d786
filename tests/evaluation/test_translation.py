"""BLEU and chrF are sacrebleu's own numbers, with its signature."""

import sacrebleu

from regard.evaluation.translation import bleu, chrf

HYPOTHESES = ["The cat sat on the mat .", "A dog barks loudly .", "It is raining"]
REFERENCES = ["The cat is on the mat .", "A dog barks .", "It rains today"]


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
