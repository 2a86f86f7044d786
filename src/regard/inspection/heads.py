"""Which head does what: looks at the previous token, the same word, the first token, or at what a pronoun means.

Each pattern is measured on sentences of our own (pronouns.txt). For pronouns the best head is chosen on one half of
them and judged on the other: of many heads one is always good by luck on what it was chosen by.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.inspection.attention import stacked
from regard.inspection.capture import digits
from regard.inspection.explanation import Explanation, explain
from regard.inspection.figures.drawing import Drawing, below
from regard.inspection.figures.heat import heat_map
from regard.inspection.figures.shown import Shown
from regard.inspection.reading import Kind, Reading, Tokens

PATTERNS = ("previous token", "same word", "first token")
PRONOUNS = ("it", "he", "she", "they", "him", "her", "them")


class Probe(NamedTuple):
    """A sentence with a pronoun and the nouns before it, as spans of characters."""

    text: str
    pronoun: tuple[int, int]
    nouns: tuple[tuple[int, int], ...]
    right: int
    half: int
    "Sentences of half 0 choose the head, those of half 1 judge it; twins stay together."


@cache
def probes() -> tuple[Probe, ...]:
    text = Path(__file__).with_name("pronouns.txt").read_text(encoding="utf-8")
    groups = [group for group in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n", "", text)) if group.strip()]
    return tuple(_probe(line, at % 2) for at, group in enumerate(groups) for line in group.strip().splitlines())


def _probe(line: str, half: int) -> Probe:
    plain, spans = "", []
    for part in re.split(r"(\[\w+\]|\(\w+\)|\*\w+\*)", line):
        marked = part[:1] in ("[", "(", "*") and len(part) > 2
        word = part[1:-1] if marked else part
        if marked:
            spans.append((part[0], (len(plain), len(plain) + len(word))))
        plain += word
    nouns = [(sign, span) for sign, span in spans if sign != "*"]
    pronoun = next(span for sign, span in spans if sign == "*")
    right = [sign for sign, _ in nouns].index("[")
    return Probe(plain, pronoun, tuple(span for _, span in nouns), right, half)


class Judged(NamedTuple):
    """How a head does on the sentences that did not choose it."""

    layer: int
    head: int
    chosen: float
    "Share of right answers on the sentences that chose it: luck included."
    accuracy: float
    n: int
    nearest: float
    "Share for who always takes the noun nearest before the pronoun, on the same sentences."

    @property
    def beats(self) -> bool:
        return self.accuracy > self.nearest

    @property
    def spread(self) -> float:
        """Half of a 95 % interval, as if sentences were coins: so far luck alone may carry."""
        return 1.96 * (self.accuracy * (1 - self.accuracy) / self.n) ** 0.5

    def verdict(self) -> str:
        found = f"layer {self.layer} head {self.head} finds the noun of a pronoun in {self.accuracy:.0%} (± "
        found += f"{self.spread:.0%}) of {self.n} sentences it was not chosen by"
        plain = f"who always takes the nearest noun has {self.nearest:.0%}"
        if not self.beats:
            return f"no head beats the nearest noun: the best, {found}; {plain}"
        doubt = "" if self.accuracy - self.spread > self.nearest else ", so it may be luck"
        return f"{found}; {plain}{doubt}"


@dataclass(frozen=True, eq=False)
class HeadScores(Shown):
    kind: Kind
    patterns: dict[str, Tensor]
    "(L, H) mean weight on what the pattern names."
    pronouns: Tensor
    "(L, H) share of all sentences in which the right noun gets the most attention of the nouns."
    judged: Judged

    def best(self, pattern: str) -> tuple[int, int]:
        return _best(self.patterns[pattern])

    def drawing(self) -> Drawing:
        found = {**self.patterns, "noun of the pronoun": self.pronouns}
        layers, heads = (
            [f"{noun} {i}" for i in range(n)] for noun, n in zip(("layer", "head"), self.pronouns.shape, strict=True)
        )
        maps = [heat_map(scores, layers, heads, title=name) for name, scores in found.items()]
        title = f"What the heads of the {self.kind} look at"
        return below(maps, title)

    def table(self) -> list[Sequence[object]]:
        columns = {**self.patterns, "noun of the pronoun": self.pronouns}
        n_layers, n_heads = self.pronouns.shape
        places = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
        rows = [[*place, *(digits(scores[place]) for scores in columns.values())] for place in places]
        return [["layer", "head", *columns], *rows]

    def numbers(self) -> NDArray[np.float32]:
        return torch.stack([*self.patterns.values(), self.pronouns]).numpy()

    def to_dict(self) -> dict[str, Any]:
        best = {name: list(self.best(name)) for name in self.patterns}
        judged = {**self.judged._asdict(), "beats": self.judged.beats, "verdict": self.judged.verdict()}
        scores = {name: digits(values) for name, values in self.patterns.items()}
        return {
            "type": "heads",
            "kind": self.kind,
            "patterns": scores,
            "best": best,
            "pronouns": digits(self.pronouns),
            "judged": judged,
        }


def find_heads(read: Callable[[str], Reading], kind: Kind, sentences: Sequence[Probe] = ()) -> HeadScores:
    """`read` makes a reading of a text; without `sentences` they are our own."""
    sentences = sentences or probes()
    sums: dict[str, Tensor] = {}
    counts = dict.fromkeys(PATTERNS, 0)
    right = []
    for probe in sentences:
        reading = read(probe.text)
        weights = stacked(reading, kind)  # (L, H, T, T)
        tokens = reading.queries(kind)
        for name, wanted in wanted_by(tokens).items():
            rows = wanted.any(-1)
            score = (weights * wanted).sum(-1)[..., rows].sum(-1)  # (L, H)
            sums[name] = sums.get(name, torch.zeros_like(score)) + score
            counts[name] += int(rows.sum())
        right.append(answers(weights, tokens, probe))
    patterns = {name: score / max(1, counts[name]) for name, score in sums.items()}
    table = torch.stack(right).float()  # (N, L, H)
    return HeadScores(kind, patterns, table.mean(0), judge(table, sentences))


def wanted_by(tokens: Tokens) -> dict[str, Tensor]:
    """(T, T) True where a token of this pattern would look; rows without any are not counted."""
    n = len(tokens)
    words = [name.casefold() for name in tokens.names]
    same = torch.tensor([[i != j and words[i] == words[j] for j in range(n)] for i in range(n)])
    first = torch.zeros(n, n, dtype=torch.bool)
    first[1:, 0] = True
    return {"previous token": torch.eye(n, dtype=torch.bool).roll(1, 0).tril(), "same word": same, "first token": first}


def answers(weights: Tensor, tokens: Tokens, probe: Probe) -> Tensor:
    """(L, H) whether the pronoun (L, H, T, T) looks more at the right noun than at any other."""
    asks = weights[..., _tokens_in(tokens, probe.pronoun), :].mean(-2)  # (L, H, T)
    seen = torch.stack([asks[..., _tokens_in(tokens, noun)].sum(-1) for noun in probe.nouns], dim=-1)
    others = seen.clone()
    others[..., probe.right] = -1.0
    return seen[..., probe.right] > others.amax(-1)  # a tie is no answer


def _tokens_in(tokens: Tokens, span: tuple[int, int]) -> list[int]:
    return [i for i, (start, end) in enumerate(tokens.spans) if start < span[1] and end > span[0]]


def judge(right: Tensor, sentences: Sequence[Probe]) -> Judged:
    """The best head (N, L, H) of one half, on the other half."""
    second = torch.tensor([bool(probe.half) for probe in sentences])
    chosen = right[~second].mean(0)  # (L, H)
    layer, head = _best(chosen)
    nearest = torch.tensor([probe.right == len(probe.nouns) - 1 for probe in sentences]).float()
    accuracy = float(right[second, layer, head].mean())
    return Judged(layer, head, float(chosen[layer, head]), accuracy, int(second.sum()), float(nearest[second].mean()))


def _best(scores: Tensor) -> tuple[int, int]:
    return divmod(int(scores.argmax()), scores.size(1))


class Decided(NamedTuple):
    layer: int
    head: int
    key: int
    weight: float

    @property
    def place(self) -> tuple[int, int]:
        return self.layer, self.head


def most_decided(
    reading: Reading, kind: Kind, query: int, *, layer: int | None = None, head: int | None = None
) -> Decided:
    """The head that puts most weight on one ordinary token, other than the asking one itself.

    Where they have nothing to say many heads look at an end, or in a decoder at the first token: that counts only if
    there is nothing else to look at.
    """
    rows = stacked(reading, kind)[:, :, query]  # (L, H, S)
    dull = torch.tensor(reading.keys(kind).special)
    if kind != "cross":
        dull[query] = True
    if kind == "decoder":
        dull[0] = True
    if bool((rows.amax((0, 1)) > 0)[~dull].any()):
        rows = rows.masked_fill(dull, -1.0)
    for dim, asked in ((0, layer), (1, head)):
        if asked is not None:
            others = torch.arange(rows.size(dim)) != asked
            rows = rows.index_fill(dim, others.nonzero()[:, 0], -2.0)
    at = int(rows.argmax())
    found, key = divmod(at, rows.size(2))
    return Decided(*divmod(found, rows.size(1)), key, float(rows.flatten()[at]))


class Chosen(NamedTuple):
    """A head for who named none, or half of one."""

    layer: int
    head: int
    why: str
    "In words, with how sure it is; nothing where it was named."
    scores: HeadScores | None = None
    "Of all heads, where the head finder chose."


def choose(
    reading: Reading,
    kind: Kind,
    query: int,
    finder: Callable[[], HeadScores],
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Chosen:
    """The one that is named; for a pronoun in a text the one that the `finder` found; else the most decided one."""
    reading.check(kind, layer, head)
    if layer is not None and head is not None:
        return Chosen(layer, head, "")
    tokens, free = reading.queries(kind), layer is head is None
    word = tokens.whole_words()[tokens.words[query]].casefold()
    if free and kind != "cross" and reading.written is None and word in PRONOUNS:
        scores = finder()
        return Chosen(*scores.judged[:2], f"this head was chosen because {scores.judged.verdict()}", scores)
    best = most_decided(reading, kind, query, layer=layer, head=head)
    whole = "of all heads" if free else "of the heads that were asked for"
    why = f"{whole} this is the most decided on one ordinary other token: {best.weight:.2f} on “"
    return Chosen(*best.place, why + f"{reading.keys(kind).names[best.key]}”")


def explain_best(
    reading: Reading, kind: Kind, query: int, *, layer: int | None = None, head: int | None = None
) -> Explanation:
    """Of the most decided head, where not both a layer and a head are named."""
    reading.check(kind, layer, head)
    if layer is None or head is None:
        layer, head = most_decided(reading, kind, query, layer=layer, head=head).place
    return explain(reading, kind, layer, head, query)
