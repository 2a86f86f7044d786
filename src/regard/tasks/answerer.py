"""Answers to questions: the piece of a text that answers best (SQuAD; Rajpurkar et al. 2016, 2018)."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from regard.config import require
from regard.data.spans import best_cells, edges_of, log_total, span_table
from regard.data.windows import STRIDE, Window, windows_of
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.models.bert import Bert
from regard.tasks.batching import chunks
from regard.tasks.windowed import FIRST_CHUNK, LAST_CHUNK, Scores, scores_of
from regard.text.tokenizer import Tokenizer

Asked = tuple[str, str]
"A question and the text that may answer it."


@dataclass(frozen=True)
class Answer:
    """`context[start:end]` is `text`; all three are empty where there is no answer."""

    text: str
    start: int
    end: int
    score: float
    "Its probability among all spans that were weighed, in all windows; no answer among them, where it may be."
    alternatives: tuple["Answer", ...] = ()
    "The next best, best first."

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        more = {"alternatives": [each.to_dict() for each in self.alternatives]} if self.alternatives else {}
        return {"text": self.text, "start": self.start, "end": self.end, "score": self.score, **more}


class Choice(NamedTuple):
    """What may be an answer, and how many are wanted."""

    top: int
    max_tokens: int
    no_answer: bool
    threshold: float

    def check(self) -> None:
        require(self.top >= 1, f"the best {self.top} answers", "expected at least 1")
        require(self.max_tokens >= 1, f"answers of at most {self.max_tokens} tokens", "expected at least 1")
        require(math.isfinite(self.threshold), f"a threshold of {self.threshold}", "expected a number")


class Answerer:
    """`answer("Who flew?", "President Obama flew to San Francisco")` gives an `Answer`.

    A text of any length is read in windows of at most `max_len` tokens, question included, that share `stride`.
    """

    def __init__(self, model: Bert, tokenizer: Tokenizer, *, max_len: int | None = None, stride: int = STRIDE) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_len = min(max_len or model.config.max_len, model.config.max_len)
        self.stride = stride

    def __call__(
        self,
        question: str,
        context: str,
        *,
        top: int = 1,
        max_tokens: int = 30,
        no_answer: bool = False,
        threshold: float = 0.0,
    ) -> Answer:
        """The best answer of at most `max_tokens` tokens; its `alternatives` make it `top` in all.

        With `no_answer` the text may have none: its score is what the model gives the first position, in the window
        that believes in it least, less the `threshold`. So a higher threshold gives more answers.
        """
        choice = Choice(top, max_tokens, no_answer, threshold)
        return next(self._many([(question, context)], choice, None))

    def many(
        self,
        pairs: Iterable[Asked],
        *,
        top: int = 1,
        max_tokens: int = 30,
        no_answer: bool = False,
        threshold: float = 0.0,
        heard: Callable[[int], None] | None = None,
    ) -> Iterator[Answer]:
        """To (question, context) pairs, in their order; never more than a chunk of them is held.

        `heard` is told meanwhile how many are done.
        """
        return self._many(pairs, Choice(top, max_tokens, no_answer, threshold), heard)

    def _many(self, pairs: Iterable[Asked], choice: Choice, heard: Callable[[int], None] | None) -> Iterator[Answer]:
        choice.check()
        done = 0
        for chunk in chunks(pairs, FIRST_CHUNK, LAST_CHUNK):
            windows = [self._windows(*pair, number) for number, pair in enumerate(chunk, start=done + 1)]
            scores = scores_of(self.model, "span", windows, done=done, heard=heard)
            for number, ((_, context), each, found) in enumerate(zip(chunk, windows, scores, strict=True), done + 1):
                yield best_answer(context, each, found, choice, number)
            done += len(chunk)

    def _windows(self, question: str, context: str, number: int) -> list[Window]:
        if not question.strip():
            raise UserError(f"question {number} is empty", "expected a question and a text")
        try:
            return windows_of(self.tokenizer, context, question, max_len=self.max_len, stride=self.stride)
        except UserError as error:
            raise UserError(f"question {number}: {error.message}", error.hint) from error

    def summary(self) -> Summary:
        return summarise(self.model)


def best_answer(
    context: str, windows: Sequence[Window], scores: Sequence[Scores], choice: Choice, number: int
) -> Answer:
    """`scores` (T, 2) of each window are those of a start and of an end at each of its ids."""
    edges = edges_of(context, windows)
    table = span_table(windows, scores, edges, choice.max_tokens)
    cells = best_cells(table, choice.top)
    null = (
        [min(float(found[0, 0]) + float(found[0, 1]) for found in scores) - choice.threshold]
        if choice.no_answer
        else []
    )
    if not cells and not null:
        raise UserError(f"question {number}: the text has nothing to answer from", "give a text that is not empty")
    total = log_total(table, null)
    places = [(int(edges.starts[i]), int(edges.ends[i + d]), float(table[i, d])) for i, d in cells]
    places = sorted([*places, *((0, 0, score) for score in null)], key=lambda place: -place[2])[: choice.top]
    best, *others = (Answer(context[start:end], start, end, math.exp(score - total)) for start, end, score in places)
    return replace(best, alternatives=tuple(others))
