"""How good is a model on rows that it has not seen? Each task by the field's own scores."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from regard.data.batches import Position, Steps
from regard.data.corpus import Row, kind_of, placed_rows, read_rows
from regard.data.examples import Examples, Texts
from regard.data.language import Documents, collate_text
from regard.data.masked import SHARE, Masking
from regard.data.shards import Shards, prepare, where
from regard.data.squad import read_squad
from regard.data.tagged import words_and_tags
from regard.errors import QUOTED, UserError, cut, notify
from regard.evaluation.answers import answer_f1, exact_match
from regard.evaluation.captions import exact
from regard.evaluation.classification import accuracy, f1, macro_f1, matthews, pearson, rmse, spearman
from regard.evaluation.language import bits_per_character, perplexity
from regard.evaluation.score import Score, scored
from regard.evaluation.tagging import tag_scores
from regard.evaluation.translation import bleu, chrf
from regard.objectives.loss import cross_entropy
from regard.tasks.answerer import Answerer
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.filler import Filler
from regard.tasks.generator import Generator
from regard.tasks.recogniser import Recogniser
from regard.tasks.tagger import Tagger
from regard.tasks.translator import Translator

BATCH_TOKENS = 2_000
Heard = Callable[[int], None]


@dataclass(frozen=True)
class Asked:
    """What to score on, and how."""

    files: Sequence[Path]
    columns: Sequence[str] | None = None
    limit: int | None = None
    bootstrap: int = 0
    beam: int = 4
    names: dict[str, str] | None = None
    "Of labels that the file calls otherwise than the model."

    def rows(self, *widths: int) -> list[Row]:
        """So many columns each."""
        rows = list(islice(read_rows(list(self.files), columns=self.columns), self.limit))
        if not rows or len(rows[0]) not in widths:
            found = f"{len(rows):,} rows of {len(rows[0])} columns" if rows else "no rows"
            raise UserError(f"--data has {found}", f"expected {' or '.join(map(str, widths))} columns; see --column")
        return rows

    def place(self, number: int) -> str:
        """Where this row ends, counted from 1; it is looked for only when there is something to complain about."""
        return where(next(islice(placed_rows(list(self.files), columns=self.columns), number - 1, None))[0])


@dataclass(frozen=True)
class Judgement:
    scores: list[Score]
    said: list[str]
    "What the model said, a line a row; nothing where it was only listened to."
    n_rows: int


def judge(task: Any, asked: Asked, heard: Heard) -> Judgement:
    for kind, way in WAYS.items():
        if isinstance(task, kind):
            return way(task, asked, heard)
    raise UserError(f"there is no score for a model that is a {type(task).__name__}", "evaluate another model")


def _translations(translate: Translator, asked: Asked, heard: Heard) -> Judgement:
    rows = asked.rows(2)
    if empty := sum(not (row[0].strip() and row[1].strip()) for row in rows):
        notify(f"{empty:,} of {len(rows):,} pairs lack a text on one side; they count as they are")
    texts = [each.text for each in translate.many([row[0] for row in rows], beam=asked.beam, heard=heard)]
    references = [row[1] for row in rows]
    scores = [metric(texts, references, bootstrap=asked.bootstrap) for metric in (bleu, chrf)]
    return Judgement(scores, texts, len(rows))


def _classes(classify: Classifier, asked: Asked, heard: Heard) -> Judgement:
    rows = asked.rows(2, 3)
    texts: Any = [row[0] if len(row) == 2 else row[:2] for row in rows]
    found = classify(texts, heard=heard)
    if classify.problem == "regression":
        given, right = [each.score for each in found], [_number(row[-1], i, asked) for i, row in enumerate(rows, 1)]
        scores = [metric(given, right, bootstrap=asked.bootstrap) for metric in (pearson, spearman, rmse)]
        return Judgement(scores, [f"{value:.6g}" for value in given], len(rows))
    return _named([each.label for each in found], rows, classify.model.config.labels, asked)


def _recognised(classify: Recogniser, asked: Asked, heard: Heard) -> Judgement:
    rows, known = asked.rows(2), classify.model.config.labels
    found = classify([row[0].encode("latin-1") for row in rows], heard=heard)
    # idx files have the numbers of labels, not their names
    numbers = {str(number): label for number, label in enumerate(known) if str(number) not in known}
    names = numbers | (asked.names or {})
    return _named([each.label for each in found], rows, known, replace(asked, names=names))


def _captions(caption: Captioner, asked: Asked, heard: Heard) -> Judgement:
    """All together, and apart by the folders that the pictures stand in."""
    rows = asked.rows(3)
    pictures = [row[0].encode("latin-1") for row in rows]
    said = [each.text for each in caption.many(pictures, beam=asked.beam, heard=heard)]
    folders = sorted({row[2] for row in rows})
    scores = []
    for name in ["", *(folders if folders[1:] else [])]:
        pairs = [(text, row[1]) for text, row in zip(said, rows, strict=True) if name in ("", row[2])]
        title = f"exact-match {name}".strip()
        scores.append(exact(*map(list, zip(*pairs, strict=True)), name=title, bootstrap=asked.bootstrap))
    return Judgement(scores, said, len(rows))


def _named(labels: list[str], rows: Sequence[Row], known: Sequence[str], asked: Asked) -> Judgement:
    gold = [_label(row[-1], known, i, asked) for i, row in enumerate(rows, 1)]
    more = {"bootstrap": asked.bootstrap}
    overlap = f1(labels, gold, positive=known[-1], **more) if len(known) == 2 else macro_f1(labels, gold, **more)
    return Judgement([accuracy(labels, gold, **more), overlap, matthews(labels, gold, **more)], labels, len(rows))


def _label(text: str, known: Sequence[str], number: int, asked: Asked) -> str:
    label = (asked.names or {}).get(text.strip(), text.strip())
    if label not in known:
        other = f"; where the file calls them otherwise: --name {text.strip()}=..." if label else ""
        hint = f"the model knows {', '.join(known[:20])}{other}"
        raise UserError(f"{asked.place(number)}: the label is '{cut(label, QUOTED)}'", hint)
    return label


def _number(text: str, number: int, asked: Asked) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    hint = "this model foresees numbers"
    raise UserError(f"{asked.place(number)}: '{cut(text, QUOTED)}' is no number to compare with", hint)


def _tags(tag: Tagger, asked: Asked, heard: Heard) -> Judgement:
    pairs = [_pair(row, i, asked) for i, row in enumerate(asked.rows(2), 1) if row[0].strip()]
    found = [[word.tag for word in each.words] for each in tag.tag_words([words for words, _ in pairs], heard=heard)]
    scores = tag_scores(found, [tags for _, tags in pairs], bootstrap=asked.bootstrap)
    return Judgement(scores, [" ".join(tags) for tags in found], len(found))


def _pair(row: Row, number: int, asked: Asked) -> tuple[list[str], list[str]]:
    try:
        return words_and_tags(row)
    except UserError as error:
        raise UserError(f"{asked.place(number)}: {error.message}", error.hint) from error


def _answers(answer: Answerer, asked: Asked, heard: Heard) -> Judgement:
    pairs, golds = zip(*islice(_questions(asked), asked.limit), strict=True)
    may_lack = any(not gold for gold in golds)
    texts = [each.text for each in answer.many(pairs, no_answer=may_lack, heard=heard)]
    scores = [metric(texts, golds, bootstrap=asked.bootstrap) for metric in (answer_f1, exact_match)]
    return Judgement(scores, texts, len(texts))


def _questions(asked: Asked) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """SQuAD's own file has several right answers to a question; a table has one, or none."""
    if all(kind_of(path) == ".json" for path in asked.files) and asked.columns is None:
        for path in asked.files:
            for each in read_squad(path):
                yield (each.text, each.context), [one.text for one in each.answers]
    else:
        for row in asked.rows(3, 4):
            yield (row[0], row[1]), [row[2]] if row[2] else []


@torch.inference_mode()
def _gaps(fill: Filler, asked: Asked, heard: Heard) -> Judgement:
    """Of 15 % of the tokens, hidden as in training, how many are the first guess."""
    masking, examples = Masking(fill.tokenizer), Texts([fill.tokenizer], min(fill.model.config.max_len, 128), "cut")
    hits, losses, n_rows = [], [], 0
    for shards, rows in _steps(asked, examples, heard):
        batch = masking(shards, rows, key=(0,), share=SHARE)
        logits = fill.model(batch.ids, batch.valid, at=batch.at).heads["masked_lm"]  # (N, V)
        losses.append((float(cross_entropy(logits, batch.targets, None, 0.0)), batch.n_targets))
        hits += (logits.argmax(-1) == batch.targets).tolist()
        n_rows += len(rows)
    found = np.array(hits, dtype=np.float64)
    signature = f"masked:{SHARE}|as in training"
    top = scored(["top-1"], lambda rows: found[rows].mean(), len(found), signature=signature, bootstrap=asked.bootstrap)
    total, count = (sum(side) for side in zip(*losses, strict=True))
    return Judgement([*top, perplexity(total, count)], [], n_rows)


@torch.inference_mode()
def _foresight(generate: Generator, asked: Asked, heard: Heard) -> Judgement:
    examples = Documents(generate.tokenizer, min(generate.model.config.max_len, 1024))
    losses = []
    for shards, rows in _steps(asked, examples, heard):
        batch = collate_text(shards, rows, pad_id=0)
        logits = generate.model(batch.ids_in).logits
        losses.append((float(cross_entropy(logits, batch.ids_out, batch.valid, 0.0)), batch.n_targets))
    total, count = (sum(side) for side in zip(*losses, strict=True))
    rows_read = islice(read_rows(list(asked.files), columns=asked.columns), asked.limit)
    letters_of = [len(row[-1]) for row in rows_read]
    letters = sum(letters_of)
    return Judgement([perplexity(total, count), bits_per_character(total, letters)], [], len(letters_of))


def _steps(asked: Asked, examples: Examples, heard: Heard) -> Iterator[tuple[Shards, np.ndarray]]:
    """All rows, in batches of like length; `heard` is told how many are done."""
    with TemporaryDirectory() as folder:
        source, columns = list(asked.files), asked.columns
        if asked.limit is not None:
            some = islice(read_rows(source, columns=columns), asked.limit)
            source, columns = [Path(folder) / "some.jsonl"], None
            source[0].write_text("".join(f"{json.dumps(dict(enumerate(row)))}\n" for row in some), encoding="utf-8")
        shards = prepare(source, examples, Path(folder) / "rows", columns=columns)
        steps, done = Steps(shards.lengths[:, :1], budget=BATCH_TOKENS, seed=0), 0
        for rows, _ in islice(steps.steps(Position()), steps.steps_in_epoch(0)):
            yield shards, rows
            done += len(rows)
            heard(done)


WAYS: dict[type, Callable[[Any, Asked, Heard], Judgement]] = {
    Translator: _translations,
    Classifier: _classes,
    Recogniser: _recognised,
    Captioner: _captions,
    Tagger: _tags,
    Answerer: _answers,
    Filler: _gaps,
    Generator: _foresight,
}
