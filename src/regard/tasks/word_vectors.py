"""One vector for each word: near words, and sums of words (man - uncle + aunt)."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.data.nearest import unit
from regard.data.vectors import Vectors
from regard.errors import QUOTED, UserError, cut
from regard.inspection.summary import Summary, summarise
from regard.models.wordvectors import WordVectorModel
from regard.text.sums import sum_of
from regard.text.tokenizer import Tokenizer

TOP = 10


class Near(NamedTuple):
    word: str
    score: float
    "The cosine: 1 for the same direction."


@dataclass(frozen=True)
class Analogy:
    """What the words with a plus and those with a minus come to; they themselves are not among the answers."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]
    answers: tuple[Near, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"answers": [{"word": word, "score": round(score, 6)} for word, score in self.answers]}


class PlacedVector(NamedTuple):
    """A word where it stands: `text[start:end]`. Without a vector where the word is unknown."""

    word: str
    start: int
    end: int
    vector: Vectors | None


class WordVectors:
    """`words["uncle"]` is a vector; `words.analogy("man - uncle + aunt")` are the words nearest to a sum."""

    def __init__(self, model: WordVectorModel, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer, self.width = model, tokenizer, model.config.d_model
        silent = {tokenizer.id_of(token) for token in tokenizer.special.values()}
        self.ids = [id for id in range(tokenizer.vocab_size) if id not in silent]
        self.words = [tokenizer.token_of(id) for id in self.ids]
        "All that are known, the most frequent first."
        self.table: Vectors = model.vectors.weight.detach().float().cpu().numpy()[self.ids]  # (words, width)
        self._places = {id: place for place, id in enumerate(self.ids)}
        self._unit = unit(self.table)

    def __getitem__(self, word: str) -> Vectors:
        found: Vectors = self.table[self.place_of(word)]
        return found

    def knows(self, word: str) -> bool:
        ids = self.tokenizer.encode(word, special=False).ids
        return len(ids) == 1 and ids[0] in self._places

    def place_of(self, word: str) -> int:
        """Among `words`; an unknown word is refused, and what is spelt like it is named."""
        if self.knows(word):
            return self._places[self.tokenizer.encode(word, special=False).ids[0]]
        raise UserError(f"the word '{cut(word, QUOTED)}' is not known", self._like(word))

    def _like(self, word: str) -> str:
        near = difflib.get_close_matches(word[:QUOTED].lower(), self.words, n=3)
        known = f"{len(self.words):,} words are known, such as {', '.join(self.words[:5])}"
        return f"did you mean {' or '.join(near)}?" if near else known

    def __call__(self, texts: Sequence[str], *, first: int = 1, heard: Callable[[int], None] | None = None) -> Vectors:
        """A row for each text, the mean of its known words; `first` is the number of the first text, for errors."""
        if isinstance(texts, str):
            raise UserError("one text was given where a list is expected", "write embed([text])")
        found = np.zeros((len(texts), self.width), dtype=np.float32)
        for row, ids in enumerate(self.tokenizer.encode_ids(list(texts), special=False)):
            places = [self._places[id] for id in ids if id in self._places]
            if not places:
                what = f"input line {first + row}: no word of '{cut(texts[row], QUOTED)}' is known"
                raise UserError(what, self._like(texts[row]))
            found[row] = self.table[places].mean(0)
            if heard:
                heard(first + row)
        return found

    def in_place(self, texts: Sequence[str]) -> Iterator[list[PlacedVector]]:
        """Of each text its words, each with its vector, which is the same wherever it stands."""
        for text in texts:
            encoding = self.tokenizer.encode(text, special=False)
            places = [self._places.get(id) for id in encoding.ids]
            yield [
                PlacedVector(text[start:end], start, end, None if place is None else self.table[place])
                for place, (start, end) in zip(places, encoding.offsets, strict=True)
            ]

    def nearest(self, plus: Sequence[str], minus: Sequence[str] = (), *, top: int = TOP) -> list[Near]:
        """By cosine to the sum of unit vectors (Mikolov et al. 2013c); the words that are asked about are left out."""
        signs = [(1, self.place_of(word)) for word in plus] + [(-1, self.place_of(word)) for word in minus]
        query = np.sum([sign * self._unit[place] for sign, place in signs], axis=0, keepdims=True)
        scores = (self._unit @ unit(query)[0]).astype(np.float64)  # (words)
        scores[[place for _, place in signs]] = -np.inf
        best = np.argsort(-scores, kind="stable")[: min(top, len(scores) - len({place for _, place in signs}))]
        return [Near(self.words[place], float(scores[place])) for place in best]

    def analogy(self, text: str, *, top: int = TOP) -> Analogy:
        """`man - uncle + aunt`; three words alone, `uncle aunt man`, ask what man has as uncle has aunt."""
        plus, minus = sum_of(text)
        return Analogy(plus, minus, tuple(self.nearest(plus, minus, top=top)))

    def summary(self) -> Summary:
        return summarise(self.model)
