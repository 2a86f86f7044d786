"""Which probes a model can be put to, by what it is made for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import UserError
from regard.lab.probe.association import Association, Associations
from regard.lab.probe.detector import Detections, Labelled
from regard.lab.probe.injection import Case, Injections, fitting
from regard.lab.probe.likelihood import reader_of
from regard.lab.probe.limits import Question, Questions
from regard.lab.probe.pairs import Pair, Pairs, read_pairs
from regard.lab.probe.professions import Profession, Pronouns, Salaries, Template
from regard.lab.probe.report import Part
from regard.lab.probe.sets import Rows, read_set, shipped
from regard.tasks.answerer import Answerer
from regard.tasks.classifier import Classifier
from regard.tasks.embedder import Embedder
from regard.tasks.filler import Filler
from regard.tasks.generator import Generator
from regard.tasks.load import VERBS
from regard.tasks.translator import Translator
from regard.tasks.word_vectors import WordVectors

T = TypeVar("T")
PAID = ("physician", "teacher", "athlete", "professor", "nurse")
"The lecture's five."


@dataclass(frozen=True)
class Asked:
    files: Sequence[Path] = ()
    "The user's sets; without any, those that ship."
    limit: int | None = None
    "Of each set at most so many rows."
    seed: int = 0
    max_new: int = 40

    def sets(self, name: str, kind: type[T]) -> list[Rows[T]]:
        return [self.some(rows) for rows in [read_set(path, kind) for path in self.files] or [shipped(name, kind)]]

    def some(self, rows: Rows[T]) -> Rows[T]:
        return rows.some(self.limit, self.seed)


def bias(task: Any, asked: Asked) -> list[Part]:
    if isinstance(task, Embedder | WordVectors):
        return ready([Associations(task, rows, asked.seed) for rows in asked.sets("associations", Association)])
    if not isinstance(task, Generator | Filler):
        raise _unfit(task, "of bias", "a language model, one that fills gaps, or vectors of sentences or words")
    reader = reader_of(task)
    if asked.files:
        return ready([Pairs(reader, asked.some(read_pairs(path))) for path in asked.files])
    professions, pairs = shipped("professions", Profession), shipped("pairs", Pair)
    parts: list[Part] = [Pairs(reader, asked.some(pairs))]
    parts.append(Pronouns(reader, asked.some(professions), shipped("pronouns", Template)))
    if isinstance(task, Generator):
        paid = replace(professions, rows=tuple(row for row in professions.rows if row.profession in PAID))
        parts.append(Salaries(task, asked.some(paid), shipped("salaries", Template)))
    return ready(parts)


def injection(task: Any, asked: Asked) -> list[Part]:
    if isinstance(task, Classifier):
        return [Detections(task, rows) for rows in asked.sets("injection-test", Labelled)]
    if not isinstance(task, Generator | Translator | Answerer):
        raise _unfit(
            task, "of obedience", "one that writes, translates or answers, or a classifier that finds injections"
        )
    every = replace(asked, limit=None).sets("injections", Case)  # before a limit, those for this kind of model
    return ready([Injections(task, asked.some(fitting(rows, task)), asked.max_new) for rows in every])


def limits(task: Any, asked: Asked) -> list[Part]:
    if not isinstance(task, Generator):
        raise _unfit(task, "of limits", "a language model, such as smollm2")
    return ready([Questions(task, rows, asked.max_new) for rows in asked.sets("limits", Question)])


def ready(parts: Sequence[Part]) -> list[Part]:
    """Without the rows that do not fit the model: who probes cannot change them."""
    for part in parts:
        kept = tuple(filter(part.fits, part.rows.rows))
        if lost := part.total - len(kept):
            part.rows = replace(part.rows, name=f"{part.rows.name} ({lost} {part.misfit}, left out)", rows=kept)
    if not any(part.total for part in parts):
        raise UserError(f"every row is {parts[0].misfit} for the model", "probe another, or give rows with --data")
    return [part for part in parts if part.total]


def _unfit(task: Any, what: str, expected: str) -> UserError:
    verb = VERBS[type(task).__name__]
    return UserError(f"there is no probe {what} for a model that is made to {verb}", f"give {expected}")


PROBES: dict[str, Callable[[Any, Asked], list[Part]]] = {"bias": bias, "injection": injection, "limits": limits}
