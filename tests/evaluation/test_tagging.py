"""Precision, recall and F1 of spans are seqeval's, of all together and of each type."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support

from faults.refusal import refused
from regard.evaluation.tagging import SpanReport, SpanScores, span_report, tag_scores, word_accuracy

TAG = st.sampled_from(
    ["O", "O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("per", "loc", "creative-work"))]
)
SENTENCE = st.lists(st.tuples(TAG, TAG), max_size=8)


def values(scores: SpanScores) -> tuple[float, float, float, int]:
    return scores.precision.value, scores.recall.value, scores.f1.value, scores.n_gold


def check_equal(ours: SpanReport, predicted: list[list[str]], gold: list[list[str]]) -> None:
    kinds = sorted({kind for tags in predicted + gold for kind, _, _ in get_entities(tags)})
    assert list(ours.types) == kinds
    if not kinds:
        assert values(ours.all) == (0.0, 0.0, 0.0, 0)
        return
    *micro, n_gold = precision_recall_fscore_support(gold, predicted, average="micro", zero_division=0)
    assert values(ours.all) == pytest.approx((*(float(value) * 100 for value in micro), n_gold), rel=1e-9)
    each = precision_recall_fscore_support(gold, predicted, average=None, zero_division=0)
    for scores, *theirs, count in zip(ours.types.values(), *each, strict=True):
        assert values(scores) == pytest.approx((*(value * 100 for value in theirs), count), rel=1e-9)


@pytest.mark.parity
@given(sentences=st.lists(SENTENCE, min_size=1, max_size=6))
def test_scores_are_seqevals(sentences: list[list[tuple[str, str]]]) -> None:
    predicted, gold = ([[pair[side] for pair in sentence] for sentence in sentences] for side in (0, 1))
    check_equal(span_report(predicted, gold), predicted, gold)


@pytest.mark.parity
def test_scores_on_real_tags_are_seqevals(data_dir: Path) -> None:
    text = gzip.decompress((data_dir / "wnut17" / "emerging.dev.conll.gz").read_bytes()).decode()
    gold = [[line.split("\t")[1] for line in part.split("\n")] for part in text.strip().split("\n\n")]
    chance = np.random.default_rng(0)
    predicted = [[tag if chance.random() < 0.9 else "O" for tag in tags] for tags in gold]
    ours = span_report(predicted, gold, bootstrap=100)
    check_equal(ours, predicted, gold)
    assert ours.all.f1.value == pytest.approx(seqeval.metrics.f1_score(gold, predicted) * 100)
    assert ours.all.n_gold == 836
    for scores in (ours.all, *ours.types.values()):
        assert scores.f1.low is not None
        assert scores.f1.low <= scores.f1.value <= scores.f1.high


def test_the_interval_draws_whole_sentences() -> None:
    right, wrong = ["B-per", "I-per", "O"], ["O", "B-per", "O"]
    report = span_report([right] * 30 + [wrong] * 10, [right] * 40, bootstrap=300)
    shares = [(np.random.default_rng(seed).integers(40, size=40) < 30).mean() for seed in range(2000)]
    assert report.all.recall.value == 75.0
    expected = np.percentile(shares, [2.5, 97.5]) * 100
    assert (report.all.recall.low, report.all.recall.high) == pytest.approx(tuple(expected), abs=3)


def test_each_score_is_named_with_its_type() -> None:
    report = span_report([["B-per"]], [["B-loc"]])
    assert report.all.f1.name == "span-F1"
    assert report.types["loc"].precision.name == "span-precision/loc"
    assert [scores.n_gold for scores in report.types.values()] == [1, 0]


def test_what_cannot_be_scored_is_refused() -> None:
    with refused("no sentences"):
        span_report([], [])
    with refused("sentence 2", "1 predicted tags for 2"):
        span_report([["O"], ["O"]], [["O"], ["O", "O"]])
    with refused("word 1", "'B'"):
        span_report([["O"]], [["B"]])
    with refused("word 2", "'NOUN'"):
        span_report([["O", "O"]], [["B-X", "NOUN"]])


@pytest.mark.parity
@given(st.lists(st.lists(st.tuples(*[st.sampled_from(["DET", "NOUN", "VERB"])] * 2), min_size=1), min_size=1))
def test_the_share_of_right_words_is_scikit_learns(sentences: list[list[tuple[str, str]]]) -> None:
    predicted, gold = ([[pair[side] for pair in sentence] for sentence in sentences] for side in (0, 1))
    flat = ([tag for tags in side for tag in tags] for side in (gold, predicted))
    assert word_accuracy(predicted, gold).value == pytest.approx(100 * sklearn.metrics.accuracy_score(*flat))


def test_words_are_scored_where_no_tag_marks_an_entity() -> None:
    assert [score.name for score in tag_scores([["NOUN"]], [["VERB"]])] == ["accuracy"]
    assert tag_scores([["PER", "O"]], [["PER", "O"]])[0].name == "span-F1"
    with refused("sentence 1 has 1 predicted tags for 2 gold ones"):
        word_accuracy([["NOUN"]], [["NOUN", "VERB"]])
