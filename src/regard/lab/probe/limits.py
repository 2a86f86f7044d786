"""Questions that a child can answer and a language model may not: counting letters, sums, toasters and pencils."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.config import require
from regard.lab.probe.report import Measure, Part, share
from regard.lab.probe.rules import first_named, last_number, says
from regard.lab.probe.sets import Rows
from regard.tasks.generator import Generator

AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class Question:
    kind: str
    ask: tuple[str, ...]
    "One question; two where it is the answers that must not contradict each other."
    rule: Literal["number", "choice", "says", "opposite"]
    """number: the last number is right. choice: what is named first is right. says: all of `right` and nothing of
    `wrong` is said. opposite: of the words in `right`, the two answers name different ones first."""
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    "Words that turn an answer around wherever they stand: who is asked for the heavier may not say lighter."

    def __post_init__(self) -> None:
        n_asked = 2 if self.rule == "opposite" else 1
        require(len(self.ask) == n_asked, f"the rule {self.rule} has {len(self.ask)} questions", f"expected {n_asked}")
        require(bool(self.right), "`right` is empty", "say what is right")
        require(self.rule != "choice" or bool(self.wrong), "a choice has nothing wrong", "name what must not be chosen")
        is_number = self.rule != "number" or last_number(self.right[0]) is not None
        require(is_number, f"{self.right[0]!r} is no number", "write it in digits")

    def is_right(self, answers: Sequence[str]) -> bool:
        if any(says(answer, word) for answer in answers for word in self.never):
            return False
        match self.rule:
            case "number":
                return last_number(answers[0]) == last_number(self.right[0])
            case "choice":
                return first_named(answers[0], [*self.right, *self.wrong]) in self.right
            case "says":
                said, bad = ([says(answers[0], each) for each in words] for words in (self.right, self.wrong))
                return all(said) and not any(bad)
        one, other = (first_named(answer, self.right) for answer in answers)
        return one is not None and other is not None and one != other

    @property
    def luck(self) -> float:
        """How often someone is right who picks one of the words that are named, without reading on."""
        if self.rule == "choice":
            return len(self.right) / (len(self.right) + len(self.wrong))
        return 0.5 if self.rule == "opposite" else 0.0


@dataclass(frozen=True)
class Answered:
    question: Question
    answers: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return self.question.is_right(self.answers)


class Questions(Part):
    name = "questions"
    says = "how many answers meet the rule written beside each question; luck is what guessing would bring"
    says_not = "how clever the model is: a right answer may be luck, a wrong one right in words that the rule misses"

    def __init__(self, generate: Generator, rows: Rows[Question], max_new: int) -> None:
        self.generate, self.rows, self.max_new = generate, rows, max_new

    def fits(self, row: Question) -> bool:
        return all(self.generate.fits(self._prompt(text)) for text in row.ask)

    def outcomes(self) -> Iterator[Answered]:
        for i in range(0, self.total, AT_ONCE):
            rows = self.rows.rows[i : i + AT_ONCE]
            found = self.generate.many([self._prompt(text) for row in rows for text in row.ask], limit=self.max_new)
            texts = (each.text for each in found)
            yield from (Answered(row, tuple(next(texts) for _ in row.ask)) for row in rows)

    def _prompt(self, text: str) -> str:
        """As the lecture asks a model that only continues texts."""
        return text if self.generate.tokenizer.chat_template else f"Q: {text}\nA:"

    def measures(self, outcomes: list[Answered]) -> list[Measure]:
        groups = _by_kind(outcomes)
        return [_right("right", outcomes), *(_right(f"  {kind}", some) for kind, some in groups.items())]

    def examples(self, outcomes: list[Answered]) -> list[dict[str, Any]]:
        """Of each kind the first that is wrong, then all others."""
        first = [next((each for each in group if not each.is_right), group[0]) for group in _by_kind(outcomes).values()]
        every = [*first, *(each for each in outcomes if each not in first)]
        return [{"right": e.is_right, "asked": list(e.question.ask), "answered": list(e.answers)} for e in every]


def _by_kind(outcomes: list[Answered]) -> dict[str, list[Answered]]:
    kinds = dict.fromkeys(each.question.kind for each in outcomes)
    return {kind: [each for each in outcomes if each.question.kind == kind] for kind in kinds}


def _right(name: str, some: Sequence[Answered]) -> Measure:
    luck = 100 * sum(each.question.luck for each in some) / len(some)
    return share(name, sum(each.is_right for each in some), len(some), f"luck {luck:.0f} %")
