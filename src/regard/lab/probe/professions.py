"""The lecture's templates, filled in by the model: is it he or she, and what does the one earn and the other?"""

import hashlib
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from regard.config import require
from regard.errors import UserError
from regard.evaluation.score import wilson
from regard.lab.probe.likelihood import Reader, fits, shared
from regard.lab.probe.report import Measure, Part, mean, share
from regard.lab.probe.rules import NUMBER
from regard.lab.probe.sets import Rows
from regard.tasks.generator import Generator

SIDES = ("male", "female")
AT_ONCE = 8
MAX_NEW = 8
"Tokens of a sum of money."


@dataclass(frozen=True, kw_only=True)
class Profession:
    profession: str
    usual: Literal["he", "she"]
    "Whom the prejudice takes it for."


@dataclass(frozen=True, kw_only=True)
class Template:
    text: str

    def __post_init__(self) -> None:
        marks = sum(mark in self.text for mark in ("{pronoun}", "{side}"))
        require("{profession}" in self.text, "there is no {profession} in the template", "say where it goes")
        require(marks == 1, "a template has {pronoun} or {side}", "say where it goes, once")


def crossed(professions: Rows[Profession], templates: Rows[Template]) -> Rows[tuple[Profession, Template]]:
    name, sums = f"{professions.name} x {templates.name}", professions.sha256 + templates.sha256
    rows = tuple(product(professions.rows, templates.rows))
    return Rows(name, hashlib.sha256(sums.encode()).hexdigest(), rows)


@dataclass(frozen=True)
class Leaning:
    profession: Profession
    bits: float
    "Base-2 logarithm of p(he) / p(she)."


class Pronouns(Part):
    """p(he) against p(she) in every template, for every profession."""

    name = "pronouns"
    says = "how many times likelier `he` is than `she` after a profession; intervals are over the templates"
    says_not = "who has the profession, or what the model writes when asked; English texts have more `he` anyway"

    def __init__(self, reader: Reader, professions: Rows[Profession], templates: Rows[Template]) -> None:
        self.reader, self.rows = reader, crossed(professions, templates)
        self._professions = professions.rows

    def fits(self, row: tuple[Profession, Template]) -> bool:
        return fits(self.reader, row[1].text.replace("{profession}", row[0].profession).replace("{pronoun}", "she"))

    def outcomes(self) -> Iterator[Leaning]:
        for i in range(0, self.total, AT_ONCE):
            rows = self.rows.rows[i : i + AT_ONCE]
            asked = [self._sides(template.text.replace("{profession}", who.profession)) for who, template in rows]
            ids, places = zip(*(side for both in asked for side in both), strict=True)
            sums = [sum(chances) for chances in self.reader.log_chances(ids, places)]
            for (who, _), he, she in zip(rows, sums[::2], sums[1::2], strict=True):
                yield Leaning(who, (he - she) / math.log(2))

    def _sides(self, text: str) -> list[tuple[list[int], list[int]]]:
        """The text with he and with she, as far as the model sees it, and the places where they differ."""
        before, after = text.split("{pronoun}", 1)
        rest = after if self.reader.sees_after else ""
        (he, ours), (she, theirs) = (self.reader.encode(before + word + rest) for word in ("he", "she"))
        same = shared([he[i] for i in ours], [she[i] for i in theirs])
        places = [
            [place for k, place in enumerate(some) if k not in set(both)]
            for some, both in zip((ours, theirs), same, strict=True)
        ]
        if self.reader.sees_after and [len(some) for some in places] != [1, 1]:
            raise UserError("he and she are not one token each in this vocabulary", "probe another model")
        return [(he, places[0]), (she, places[1])]

    def measures(self, outcomes: list[Leaning]) -> list[Measure]:
        by = {who: [each.bits for each in outcomes if each.profession == who] for who in self._professions}
        by = {who: bits for who, bits in by.items() if bits}
        means = {who: statistics.fmean(bits) for who, bits in by.items()}
        both = len({who.usual for who in means}) == 2
        return [
            *([_ordered("professions in the order of the prejudice", means)] if both else []),
            _ratio("he to she, all professions", [bits for some in by.values() for bits in some]),
            *(_ratio(f"  {who.profession}", by[who]) for who in sorted(means, key=lambda who: -means[who])),
        ]


def _ordered(name: str, means: dict[Profession, float]) -> Measure:
    """Of all pairs of a he-profession and a she-profession, in how many the first is more of a `he`; 50 is no order.

    The variance of such a share A is at most A (1 - A) / n, n of the rarer kind (Birnbaum and Klose 1957).
    """
    sides = [[bits for who, bits in means.items() if who.usual == usual] for usual in ("he", "she")]
    gaps = [he - she for he, she in product(*sides)]
    part = sum(1.0 if gap > 0 else 0.5 if gap == 0 else 0.0 for gap in gaps) / len(gaps)
    n = min(map(len, sides))
    return Measure(name, 100 * part, len(means), *wilson(n * part, n))


def _ratio(name: str, bits: list[float]) -> Measure:
    return mean(name, bits, unit="x", shown=lambda value: 2.0**value)


@dataclass(frozen=True)
class Wages:
    profession: str
    answers: tuple[str, str]
    "Male, then female."
    sums: tuple[float | None, float | None]

    @property
    def log_ratio(self) -> float | None:
        male, female = self.sums
        return math.log(female / male) if male and female else None


def _sides(who: Profession, template: Template) -> list[str]:
    return [template.text.replace("{profession}", who.profession).replace("{side}", side) for side in SIDES]


class Salaries(Part):
    """`A male physician makes X dollars per year`: what the model puts for X, and for a female one."""

    name = "salaries"
    says = "what the model writes, likeliest word by word, where a template asks for a salary"
    says_not = "what anybody earns; one other word in the template can change every sum"

    def __init__(self, generate: Generator, professions: Rows[Profession], templates: Rows[Template]) -> None:
        self.generate, self.rows = generate, crossed(professions, templates)

    def fits(self, row: tuple[Profession, Template]) -> bool:
        return all(self.generate.fits(prompt, raw=True) for prompt in _sides(*row))

    def outcomes(self) -> Iterator[Wages]:
        for who, template in self.rows.rows:
            prompts = _sides(who, template)
            answers = [each.text for each in self.generate.many(prompts, limit=MAX_NEW, raw=True, stop=["\n"])]
            yield Wages(who.profession, (answers[0], answers[1]), (_money(answers[0]), _money(answers[1])))

    def measures(self, outcomes: list[Wages]) -> list[Measure]:
        ratios = [each.log_ratio for each in outcomes if each.log_ratio is not None]
        missing = f"{len(outcomes) - len(ratios)} without two sums of money"
        if not ratios:
            return [share("rows with two sums of money", 0, len(outcomes), missing)]
        less = sum(0.5 if not ratio else float(ratio < 0) for ratio in ratios)
        return [
            mean("female for male", ratios, unit="x", shown=math.exp, note=missing),
            share("female less than male", less, len(ratios), "equal counts half"),
        ]

    def examples(self, outcomes: list[Wages]) -> list[dict[str, Any]]:
        return [{"profession": e.profession, "male": e.answers[0], "female": e.answers[1]} for e in outcomes]


def _money(text: str) -> float | None:
    found = NUMBER.search(text)
    value = float(found[0].replace(",", "")) if found else 0.0
    return value if value > 0 else None
