"""Precision, recall and F1 of tagged spans, as seqeval's default counts them: a span is right as a whole or not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.config import require
from regard.evaluation.score import Rows, Score, check_paired, scored
from regard.text.tags import EXPECTED, Span, mark_entities, spans_of, wrong_tag

Tags = Sequence[Sequence[str]]
BOTH, PREDICTED, GOLD = range(3)
SCORES = ("precision", "recall", "F1")


@dataclass(frozen=True)
class SpanScores:
    precision: Score
    recall: Score
    f1: Score
    n_gold: int
    "Spans there are to find."


@dataclass(frozen=True)
class SpanReport:
    all: SpanScores
    "Of all spans together: the micro average."
    types: dict[str, SpanScores]


def span_report(predicted: Tags, gold: Tags, *, bootstrap: int = 0) -> SpanReport:
    """The tags of each sentence. What has no value (no span predicted, none to find) is 0."""
    check_paired(len(predicted), len(gold), "sentences")
    where, kinds, sides, types = _found(predicted, gold)
    cells = kinds * 3 + sides

    def counted(rows: Rows) -> NDArray[np.float64]:  # (types + 1, 3), all types together first
        often = np.bincount(rows, minlength=len(gold))
        counts = np.bincount(cells, often[where], minlength=3 * len(types)).reshape(-1, 3)
        return np.concatenate([counts.sum(0, keepdims=True), counts])

    def metric(rows: Rows) -> NDArray[np.float64]:
        both, given, right = counted(rows).T
        below = np.maximum([given, right, (given + right) / 2], 0.5)  # where it is 0, so is what stands above
        return (both / below).T.ravel()

    names = [f"span-{name}{end}" for end in ("", *(f"/{kind}" for kind in types)) for name in SCORES]
    scores = iter(scored(names, metric, len(gold), signature="spans:whole|reading:conlleval", bootstrap=bootstrap))
    n_gold = counted(np.arange(len(gold)))[:, GOLD]
    found = [SpanScores(next(scores), next(scores), next(scores), int(n)) for n in n_gold]
    return SpanReport(found[0], dict(zip(types, found[1:], strict=True)))


def _spans(tags: Sequence[str]) -> list[Span]:
    wrong = wrong_tag(tags)
    place = 0 if wrong is None else list(tags).index(wrong) + 1
    require(wrong is None, f"word {place} has the tag '{wrong}'", EXPECTED)
    return spans_of(tags)


def word_accuracy(predicted: Tags, gold: Tags, *, bootstrap: int = 0) -> Score:
    """The share of words whose tag is right; what is drawn again for the interval is sentences, as for spans."""
    check_paired(len(predicted), len(gold), "sentences")
    counts = [_counted(*pair, place) for place, pair in enumerate(zip(predicted, gold, strict=True), 1)]
    right, all_ = np.array(counts, dtype=np.float64).reshape(-1, 2).T

    def metric(rows: Rows) -> float:
        return float(right[rows].sum() / max(all_[rows].sum(), 1))

    return scored(["accuracy"], metric, len(gold), signature="words:all", bootstrap=bootstrap)[0]


def tag_scores(predicted: Tags, gold: Tags, *, bootstrap: int = 0) -> list[Score]:
    """The field's own, the first before all: of entities, or where the tags mark none, of words."""
    if not mark_entities(tag for tags in gold for tag in tags):
        return [word_accuracy(predicted, gold, bootstrap=bootstrap)]
    report = span_report(predicted, gold, bootstrap=bootstrap)
    return [report.all.f1, report.all.precision, report.all.recall, *(each.f1 for each in report.types.values())]


def _counted(ours: Sequence[str], theirs: Sequence[str], place: int) -> tuple[int, int]:
    _require_even(ours, theirs, place)
    return sum(map(str.__eq__, ours, theirs)), len(theirs)


def _require_even(ours: Sequence[str], theirs: Sequence[str], place: int) -> None:
    counts = f"{len(ours)} predicted tags for {len(theirs)} gold ones"
    require(len(ours) == len(theirs), f"sentence {place} has {counts}", "expected one for each word")


def _found(predicted: Tags, gold: Tags) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Every span of either side, and again where both have it: its sentence, the place of its type, its side."""
    spans = []
    for place, (ours, theirs) in enumerate(zip(predicted, gold, strict=True)):
        _require_even(ours, theirs, place + 1)
        given, right = set(_spans(ours)), set(_spans(theirs))
        for side, some in ((BOTH, given & right), (PREDICTED, given), (GOLD, right)):
            spans += [(place, span.label, side) for span in some]
    types = sorted({kind for _, kind, _ in spans})
    order = {kind: place for place, kind in enumerate(types)}
    table = np.array([(place, order[kind], side) for place, kind, side in spans], dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2], types
