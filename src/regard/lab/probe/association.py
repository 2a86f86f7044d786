"""Association tests for vectors: are these words nearer to those than the others are? (Caliskan et al. 2017, WEAT.)

Word vectors are compared as they are. For sentence vectors (SEAT, May et al. 2019) each word stands in sentences that
say nothing else; here a word's vector is the mean over them, so that the test is exact: all ways to part the words are
tried, and no draw is needed.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.config import require
from regard.lab.probe.report import Measure, Part
from regard.lab.probe.sets import Rows
from regard.tasks.embedder import Embedder
from regard.tasks.word_vectors import WordVectors

EXACT = 20_000
"Ways to part the words that are all tried; of more, so many are drawn by the seed."
Vectors = NDArray[np.float64]
SIDES = ("x", "y", "a", "b")
FEWEST = 2
"Words of a kind; how little so few can show, p says."
SENTENCES = ("This is about {word}.", "It is the word {word}.", "Here we speak of {word}.")


@dataclass(frozen=True, kw_only=True)
class Association:
    name: str
    x: tuple[str, ...]
    y: tuple[str, ...]
    "Two kinds of things, as many of each."
    a: tuple[str, ...]
    b: tuple[str, ...]
    "Two kinds of words they may be near to."

    def __post_init__(self) -> None:
        require(len(self.x) == len(self.y) >= 2, "x and y have not as many words", "give as many of each, two at least")
        require(min(len(self.a), len(self.b)) >= 1, "a or b is empty", "give words for both")


@dataclass(frozen=True)
class Associated:
    test: Association
    effect: float
    p: float
    n_ways: int
    n_unknown: int = 0


class Associations(Part):
    name = "associations"
    says = "by how many standard deviations the first kind is nearer to the first words (2 at most)"
    says_not = "that vectors will be unfair in use; a few words of our choice are weak evidence both ways"

    misfit = "of words that are not known"

    def __init__(self, embed: Embedder | WordVectors, rows: Rows[Association], seed: int) -> None:
        self.embed, self.rows, self.seed = embed, rows, seed
        self.sentences = ("{word}",) if isinstance(embed, WordVectors) else SENTENCES

    def fits(self, row: Association) -> bool:
        return self._known(row) is not None

    def _known(self, test: Association) -> Association | None:
        return known(test, self.embed) if isinstance(self.embed, WordVectors) else test

    def outcomes(self) -> Iterator[Associated]:
        for whole in self.rows.rows:
            test = self._known(whole) or whole
            n_unknown = sum(len(getattr(whole, side)) - len(getattr(test, side)) for side in SIDES)
            x, y, a, b = (self._vectors(words) for words in (test.x, test.y, test.a, test.b))
            nearer = nearness(np.concatenate([x, y]), a, b)
            p, n_ways = p_value(nearer, seed=self.seed)
            yield Associated(test, effect_size(nearer), p, n_ways, n_unknown)

    def _vectors(self, words: tuple[str, ...]) -> Vectors:
        texts = [sentence.replace("{word}", word) for word in words for sentence in self.sentences]
        return self.embed(texts).astype(np.float64).reshape(len(words), len(self.sentences), -1).mean(1)  # (words, D)

    def measures(self, outcomes: list[Associated]) -> list[Measure]:
        return [
            Measure(each.test.name, each.effect, 2 * len(each.test.x), unit="d", note=_note(each)) for each in outcomes
        ]


def _note(found: Associated) -> str:
    unknown = f"; {found.n_unknown} words left out, unknown or without a partner" if found.n_unknown else ""
    return f"p = {found.p:.4f} of {found.n_ways:,} ways{unknown}"


def known(test: Association, words: WordVectors) -> Association | None:
    """Of the words that have a vector; of x and y as many, the first ones. None where too few are left."""
    x, y, a, b = (tuple(filter(words.knows, getattr(test, side))) for side in SIDES)
    pairs = min(len(x), len(y))
    if pairs < FEWEST or not (a and b):
        return None
    return replace(test, x=x[:pairs], y=y[:pairs], a=a, b=b)


def nearness(words: Vectors, a: Vectors, b: Vectors) -> Vectors:
    """s(w, A, B): of each word the mean cosine to A less the mean cosine to B."""
    words, a, b = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (words, a, b))
    return (words @ a.T).mean(1) - (words @ b.T).mean(1)


def effect_size(nearer: Vectors) -> float:
    """The first half of the words against the second; the deviation is that of a sample, as in SEAT's program."""
    half, spread = len(nearer) // 2, float(nearer.std(ddof=1))
    return float(nearer[:half].mean() - nearer[half:].mean()) / spread if spread > 0 else 0.0


def p_value(nearer: Vectors, *, seed: int) -> tuple[float, int]:
    """The share of ways to part the words into halves that differ as much as this one, which is one of them; and how
    many were tried."""
    n, half = len(nearer), len(nearer) // 2
    if (n_ways := math.comb(n, half)) <= EXACT:
        chosen = np.array(list(itertools.combinations(range(n), half)))
    else:
        chance = np.random.default_rng(seed)
        ways = [np.arange(half), *(chance.permutation(n)[:half] for _ in range(EXACT - 1))]
        chosen, n_ways = np.array(ways), EXACT
    firsts = nearer[chosen].sum(1)
    # The total is fixed, so the larger first half has the larger difference. As in SEAT's program, equal counts too.
    return float((firsts >= nearer[:half].sum() - 1e-12).mean()), n_ways
