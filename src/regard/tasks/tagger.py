"""Names in a text: each word gets a tag, and tags make entities."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.data.windows import STRIDE, Window, offsets_of, places_of, windows_of
from regard.data.words import Word, first_tokens, joined, words_of
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.models.base import Model
from regard.tasks.batching import chunks
from regard.tasks.viterbi import best_path
from regard.tasks.windowed import FIRST_CHUNK, LAST_CHUNK, Scores, scores_of
from regard.text.tags import OUTSIDE, spans_of, steps
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TaggedWord:
    text: str
    start: int
    end: int
    tag: str
    score: float
    "The tag's probability; 1 where the vocabulary has no sign for the word, which then is O."


@dataclass(frozen=True)
class Entity:
    text: str
    label: str
    start: int
    end: int
    score: float
    "The mean over its words of their tags' probabilities."


@dataclass(frozen=True)
class Tagging:
    """Places are in characters: `text[start:end]` is the entity, or the word, as the user wrote it."""

    text: str
    entities: tuple[Entity, ...]
    words: tuple[TaggedWord, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Tagger:
    """`tag("President Obama flew to San Francisco")` gives a `Tagging`.

    A text of any length is read in windows of at most `max_len` tokens that share `stride`; each word counts in the
    window that shows most around it, and there at its first token, as it does in training. Its likeliest tag is
    taken; with `strict` the likeliest tags of the whole text in which every I- has a beginning.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, *, max_len: int | None = None, stride: int = STRIDE) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.labels = model.config.labels
        self.max_len = min(max_len or model.config.max_len, model.config.max_len)
        self.stride = stride
        self._steps = np.array(steps(self.labels))  # (n + 1, n)
        # A word that is not read is O for sure; where there is no such tag, it decides nothing.
        outside = np.array([tag == OUTSIDE for tag in self.labels])
        self._unread = np.where(outside | ~outside.any(), 0.0, -np.inf)  # (n)

    def __call__(self, text: str, *, strict: bool = False) -> Tagging:
        if not isinstance(text, str):
            raise UserError("one text is expected", "write tag.many(texts), or tag.tag_words(rows) for rows of words")
        return next(self.many([text], strict=strict))

    def many(
        self, texts: Iterable[str], *, strict: bool = False, heard: Callable[[int], None] | None = None
    ) -> Iterator[Tagging]:
        """In the order of `texts`, of which never more than a chunk is held; `heard` is told how many are done."""
        if isinstance(texts, str):
            raise UserError("one text was given where several are expected", "write tag(text)")
        return self._many(((text, words_of(text)) for text in texts), strict, heard)

    def tag_words(
        self, rows: Iterable[Sequence[str]], *, strict: bool = False, heard: Callable[[int], None] | None = None
    ) -> Iterator[Tagging]:
        """Of texts that are cut into words; places are those in the words joined by spaces."""
        return self._many((joined(_checked(row)) for row in rows), strict, heard)

    def _many(
        self, texts: Iterable[tuple[str, list[Word]]], strict: bool, heard: Callable[[int], None] | None
    ) -> Iterator[Tagging]:
        done = 0
        for chunk in chunks(texts, FIRST_CHUNK, LAST_CHUNK):
            windows = [windows_of(self.tokenizer, text, max_len=self.max_len, stride=self.stride) for text, _ in chunk]
            scores = scores_of(self.model, "tag", windows, done=done, heard=heard)
            done += len(chunk)
            for (text, words), each, scored in zip(chunk, windows, scores, strict=True):
                yield self._tagging(text, words, each, scored, strict)

    def _tagging(
        self, text: str, words: list[Word], windows: Sequence[Window], scores: Sequence[Scores], strict: bool
    ) -> Tagging:
        places = places_of(windows, first_tokens(text, words, offsets_of(windows)))
        table = [self._unread if place is None else _log_softmax(scores[place[0]][place[1]]) for place in places]
        columns = best_path(np.array(table), self._steps) if strict else [int(row.argmax()) for row in table]
        tagged = tuple(
            TaggedWord(*word, OUTSIDE, 1.0)
            if place is None
            else TaggedWord(*word, self.labels[column], float(np.exp(row[column])))
            for word, place, row, column in zip(words, places, table, columns, strict=True)
        )
        return Tagging(text, tuple(_entities(text, tagged)), tagged)

    def summary(self) -> Summary:
        return summarise(self.model)


def _entities(text: str, words: Sequence[TaggedWord]) -> Iterator[Entity]:
    for label, first, last in spans_of([word.tag for word in words]):
        start, end = words[first].start, words[last].end
        score = sum(word.score for word in words[first : last + 1]) / (last + 1 - first)
        yield Entity(text[start:end], label, start, end, score)


def _log_softmax(scores: Scores) -> Any:
    shifted = scores.astype(np.float64) - scores.max()
    return shifted - np.log(np.exp(shifted).sum())


def _checked(row: Sequence[str]) -> Sequence[str]:
    if isinstance(row, str):
        raise UserError("a text was given where a list of its words is expected", "write tag(text)")
    return row
