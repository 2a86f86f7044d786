"""Something to learn for a model of each kind: an objective, and a batch of the subject's own inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.answered import AnswerBatch
from regard.data.images import ImageBatch
from regard.data.labelled import LabelledBatch
from regard.data.language import TextBatch
from regard.data.masked import MaskedBatch
from regard.data.pairs import PairBatch
from regard.data.tagged import TaggedBatch
from regard.lab.subject import Subject
from regard.objectives.answer import Answer
from regard.objectives.causal import Causal
from regard.objectives.classify import Classify
from regard.objectives.masked import Masked
from regard.objectives.recognise import Recognise
from regard.objectives.seq2seq import Seq2Seq
from regard.objectives.tag import Tag

Lesson = tuple[Any, Any]


def lesson_of(subject: Subject) -> Callable[[list[int]], Lesson] | None:
    """From numbers of rows to what is minimised and on what; None where there is nothing that it could learn alone."""
    made = KINDS.get(_kind(subject))
    return None if made is None else lambda rows: made(subject, rows)


def _kind(subject: Subject) -> str:
    if subject.writes:
        return "pairs" if subject.paired else "texts"
    if subject.sees:
        return "pictures" if subject.model.classify is not None else ""
    heads = getattr(subject.model.config, "heads", ())
    alone = "classify" if getattr(subject.model, "classify", None) is not None else ""
    return next((head for head in heads if head in KINDS), alone)


def _real(subject: Subject, rows: list[int]) -> tuple[Tensor, Tensor]:
    """Ids, and at which of them something is learnt: rows of unequal lengths, as in life. Padding has its own check."""
    length = subject.length
    return subject.plain.x[rows], torch.arange(length) < torch.tensor([[length], [3], [length], [3]])[rows]


def _shifted(subject: Subject, rows: list[int]) -> tuple[Any, ...]:
    ids, valid = _real(subject, rows)
    return ids[:, :-1], ids[:, 1:], valid[:, 1:], int(valid[:, 1:].sum()), np.array(rows)


def _texts(subject: Subject, rows: list[int]) -> Lesson:
    return Causal(), TextBatch(*_shifted(subject, rows))


def _pairs(subject: Subject, rows: list[int]) -> Lesson:
    assert subject.plain.src is not None
    return Seq2Seq(label_smoothing=0.1), PairBatch(subject.plain.src[rows], None, *_shifted(subject, rows))


def _labels(subject: Subject, rows: list[int]) -> Tensor:
    n_labels = len(subject.model.config.labels)
    return torch.tensor(rows) % n_labels if n_labels > 1 else torch.tensor(rows) / 2


def _classify(subject: Subject, rows: list[int]) -> Lesson:
    ids, _ = _real(subject, rows)
    found = _labels(subject, rows)
    return Classify(), LabelledBatch(ids, None, None, found, torch.ones(len(rows)), len(rows), np.array(rows))


def _pictures(subject: Subject, rows: list[int]) -> Lesson:
    found = torch.tensor(rows) % max(len(subject.model.config.labels), 1)
    return Recognise(), ImageBatch(subject.plain.x[rows], found, torch.ones(len(rows)), len(rows), np.array(rows))


def _tags(subject: Subject, rows: list[int]) -> Lesson:
    ids, valid = _real(subject, rows)
    targets = ids[valid] % len(subject.model.config.labels)
    return Tag(), TaggedBatch(ids, None, valid, targets, len(targets), np.array(rows))


def _spans(subject: Subject, rows: list[int]) -> Lesson:
    ids, valid = _real(subject, rows)
    spans = torch.stack([valid.sum(1) // 2, valid.sum(1) - 1], dim=1)  # (B, 2)
    count = len(rows)
    return Answer(), AnswerBatch(ids, None, None, valid, spans, torch.ones(count), count, np.array(rows))


def _gaps(subject: Subject, rows: list[int]) -> Lesson:
    ids, valid = _real(subject, rows)
    hidden = valid & (torch.arange(subject.length) % 2 == 1)
    apart = torch.tensor(rows) % 2 if "next_sentence" in subject.model.config.heads else None
    shown = torch.where(hidden, ids.flip(1), ids)
    return Masked(), MaskedBatch(shown, None, hidden, ids[hidden], int(hidden.sum()), np.array(rows), apart=apart)


KINDS: dict[str, Callable[[Subject, list[int]], Lesson]] = {
    "texts": _texts,
    "pairs": _pairs,
    "pictures": _pictures,
    "classify": _classify,
    "tag": _tags,
    "span": _spans,
    "masked_lm": _gaps,
}
"What is learnt, or the head that learns it."
