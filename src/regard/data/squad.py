"""Questions about texts as SQuAD writes them (1.1, Rajpurkar et al. 2016; 2.0, 2018): one JSON document.

An answer is a piece of its context, found by the character it starts at. In 2.0 a question may have none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.lines import document
from regard.errors import QUOTED, UserError, cut
from regard.files import MIB, parse_json

MAX_DOCUMENT = 256 * MIB
"Largest accepted file, unpacked; the training set of SQuAD 2.0 has 42 MB."


_SHAPES = {
    "title": "text",
    "paragraphs": "a list of objects with context and qas",
    "context": "text",
    "qas": "a list of objects with id, question and answers",
    "question": "text",
    "id": "text",
    "answers": "a list of objects with text and answer_start, empty where the context does not say",
    "text": "text",
    "answer_start": "a whole number of characters",
}


@dataclass(frozen=True)
class Answer:
    text: str
    start: int
    "In characters of the context."


@dataclass(frozen=True)
class Question:
    text: str
    context: str
    answers: tuple[Answer, ...]
    "All gold answers, to score against; none where the context does not say."
    id: str
    title: str

    @property
    def row(self) -> tuple[str, ...]:
        """What to train on: the first answer and its start, or nothing twice."""
        answer, start = (self.answers[0].text, str(self.answers[0].start)) if self.answers else ("", "")
        return self.text, self.context, answer, start, self.id, self.title


def read_squad(path: Path) -> Iterator[Question]:
    for i, article in enumerate(_articles(path), 1):
        where = f"{path}, article {i}"
        title = _part(article, "title", str, where, default="")
        for j, paragraph in enumerate(_part(article, "paragraphs", list, where), 1):
            where = f"{path}, article {i}, paragraph {j}"
            context = _part(paragraph, "context", str, where)
            for k, question in enumerate(_part(paragraph, "qas", list, where), 1):
                yield _question(question, context, title, path, f"{where}, question {k}")


def _articles(path: Path) -> list[Any]:
    text = document(path, MAX_DOCUMENT)
    try:
        found = parse_json(text, str(path))
    except UserError as error:
        if "Extra data" in error.message:
            hint = "if it has one a line, name it .jsonl"
            raise UserError(f"{path} holds more than one JSON document", hint) from error
        raise
    if not isinstance(found, dict) or not isinstance(found.get("data"), list):
        raise UserError(f"{path} is one JSON document", "write one JSON object per line and name it .jsonl")
    return found["data"]


def _question(found: Any, context: str, title: str, path: Path, where: str) -> Question:
    id = str(_part(found, "id", str | int, where))
    where = f"{path}, question '{cut(id, QUOTED)}'"
    answers = tuple(_answer(each, context, where) for each in _part(found, "answers", list, where))
    if answers and found.get("is_impossible"):
        raise UserError(f"{where} has an answer and says is_impossible", "keep one of the two")
    return Question(_part(found, "question", str, where), context, answers, id, title)


def _answer(found: Any, context: str, where: str) -> Answer:
    text, start = _part(found, "text", str, where), _part(found, "answer_start", int, where)
    if not text:
        raise UserError(f"{where} has an empty answer", 'write "answers": [] where the context does not say')
    if start < 0 or not context.startswith(text, start):
        place = context.find(text)
        hint = "copy it from there as it is" if place < 0 else f"count characters from 0: it first stands at {place}"
        raise UserError(f"{where}: its context does not have '{cut(text, QUOTED)}' at answer_start {start}", hint)
    return Answer(text, start)


def _part(found: Any, key: str, kind: Any, where: str, *, default: Any = None) -> Any:
    value = found.get(key, default) if isinstance(found, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        what = f"'{key}' of type {type(value).__name__}" if isinstance(found, dict) and key in found else f"no '{key}'"
        raise UserError(f"{where} has {what}", f"expected {key} as in SQuAD: {_SHAPES[key]}")
    return value
