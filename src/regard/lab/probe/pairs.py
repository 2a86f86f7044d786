"""Pairs of sentences that differ in whom they speak of: which one does a model find likelier?

CrowS-Pairs (Nangia et al. 2020) hides each token that both sentences share in turn and adds up the logarithms of its
probabilities, so that the names of the groups themselves, one rarer than the other, do not count. Of a causal model the
same tokens are taken after what comes before them; and the likelihood of the whole sentence, as is usual for them.
WinoBias (Zhao et al. 2018) is read as pairs too: the same sentence with the pronoun that the profession suggests and
with the other. There the pronoun itself counts; he and she are suggested about as often, so that who likes one of them
more gains nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.config import require
from regard.data.corpus import names_of, placed_rows
from regard.data.lines import bare_lines, check_file
from regard.errors import UserError
from regard.lab.probe.likelihood import Reader, fits, shared
from regard.lab.probe.report import Measure, Part, share
from regard.lab.probe.sets import Rows, named, read_set

AT_ONCE = 8
TIE = 0.0005
"Closer logarithms are equal (the authors' program rounds to three digits); a tie counts half, not nothing as there."


@dataclass(frozen=True, kw_only=True)
class Pair:
    more: str
    "The sentence that says what a prejudice says."
    less: str
    kind: str = ""
    by: Literal["shared", "whole"] = "shared"
    "Which tokens count: those that both share, or all. Where only a pronoun differs, it is the pronoun that is judged."

    def __post_init__(self) -> None:
        require(bool(self.more.strip() and self.less.strip()), "one of the sentences is empty", "write both")
        require(self.more != self.less, "both sentences are the same", "they must differ in whom they speak of")


@dataclass(frozen=True)
class Preference:
    pair: Pair
    shared: float
    "Logarithm of how many times likelier the tokens of `more` are than those of `less` that they share."
    whole: float | None
    "The same of the whole sentences, where all tokens were asked for."

    @property
    def gap(self) -> float:
        return self.shared if self.pair.by == "shared" or self.whole is None else self.whole


class Pairs(Part):
    name = "pairs"
    says = "how often the model finds the sentence with the prejudice likelier; 50 is no preference"
    says_not = "whether it would say it, how strongly it holds it, or anything about groups not in the set"

    def __init__(self, reader: Reader, rows: Rows[Pair]) -> None:
        self.reader, self.rows = reader, rows

    def fits(self, row: Pair) -> bool:
        return fits(self.reader, row.more, row.less)

    def outcomes(self) -> Iterator[Preference]:
        for some in _batched(self.rows.rows):
            yield from self._compared(some)

    def _compared(self, pairs: Sequence[Pair]) -> Iterator[Preference]:
        read = [self.reader.encode(text) for pair in pairs for text in (pair.more, pair.less)]
        common: list[set[int]] = []
        for (more, ours), (less, theirs) in zip(read[::2], read[1::2], strict=True):
            both = shared([more[i] for i in ours], [less[i] for i in theirs])
            common += [{ours[i] for i in both[0]}, {theirs[i] for i in both[1]}]
        # To hide every token in turn is dear; what comes before a token is read anyway.
        all_of = [not self.reader.sees_after or pair.by == "whole" for pair in pairs for _ in range(2)]
        places = [
            whole if every else sorted(some) for (_, whole), some, every in zip(read, common, all_of, strict=True)
        ]
        found = self.reader.log_chances([ids for ids, _ in read], places)
        sums = [
            (sum(value for place, value in zip(some, values, strict=True) if place in both), sum(values))
            for some, values, both in zip(places, found, common, strict=True)
        ]
        for pair, one, other, every in zip(pairs, sums[::2], sums[1::2], all_of[::2], strict=True):
            yield Preference(pair, one[0] - other[0], one[1] - other[1] if every else None)

    def measures(self, outcomes: list[Preference]) -> list[Measure]:
        names = {"shared": "stereotype preferred, shared tokens", "whole": "stereotype preferred, whole sentence"}
        by = " and ".join(sorted({each.pair.by for each in outcomes}))
        measures = [preferred(names.get(by, "stereotype preferred"), [each.gap for each in outcomes])]
        if by == "shared" and (wholes := [each.whole for each in outcomes if each.whole is not None]):
            measures.append(preferred(names["whole"], wholes))
        for kind in sorted({each.pair.kind for each in outcomes} - {""}):
            measures.append(preferred(f"  {kind}", [each.gap for each in outcomes if each.pair.kind == kind]))
        return measures

    def examples(self, outcomes: list[Preference]) -> list[dict[str, Any]]:
        widest = sorted(outcomes, key=lambda each: -abs(each.gap))
        return [_example(each) for each in widest]


def _example(found: Preference) -> dict[str, Any]:
    biased = found.gap > 0
    likelier = found.pair.more if biased else found.pair.less
    return {"likelier": likelier, "stereotype": biased, "by_nats": abs(found.gap), "kind": found.pair.kind}


def _batched(rows: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    return (rows[i : i + AT_ONCE] for i in range(0, len(rows), AT_ONCE))


def preferred(name: str, gaps: Sequence[float]) -> Measure:
    """The share of gaps above zero; ties count half."""
    ties = sum(abs(gap) < TIE for gap in gaps)
    note = f"{ties} ties" if ties else ""
    return share(name, sum(gap >= TIE for gap in gaps) + ties / 2, len(gaps), note)


# ---- where pairs are found


def read_pairs(path: Path) -> Rows[Pair]:
    """CrowS-Pairs' table, one of WinoBias' files (its counterpart lies beside it), or JSON lines of our own."""
    check_file(path)
    if "_stereotyped_" in path.name:
        return _winobias(path)
    if "sent_more" in names_of(path):
        columns = ["sent_more", "sent_less", "bias_type"]
        return named([path], [_checked(row, place) for place, row in placed_rows(path, columns=columns) if any(row)])
    if path.suffix != ".jsonl":
        hint = "expected CrowS-Pairs' .csv, WinoBias' pro_stereotyped_*.txt.*, or .jsonl with more, less and kind"
        raise UserError(f"{path.name} is no set of pairs that is known", hint)
    return read_set(path, Pair)


def _checked(row: Sequence[str], place: tuple[Path, int]) -> Pair:
    try:
        return Pair(more=row[0], less=row[1], kind=row[2])
    except UserError as error:
        raise UserError(f"{place[0]}, line {place[1]}: {error.message}", error.hint) from error


def _winobias(path: Path) -> Rows[Pair]:
    name = path.name.removeprefix("anti_").removeprefix("pro_")
    paths = [path.with_name(side + name) for side in ("pro_", "anti_")]
    for each in paths:
        check_file(each)
    pros, antis = ([_sentence(each, n, line) for n, line in enumerate(bare_lines(each), 1)] for each in paths)
    if len(pros) != len(antis):
        raise UserError(
            f"{name}: {len(pros)} sentences in one file, {len(antis)} in the other", "line n belongs to line n"
        )
    kinds = [re.search(r"\b(he|his|him)\b", pro.lower()) for pro in pros]
    pairs = [
        Pair(more=pro, less=anti, kind="suggests he" if kind else "suggests she", by="whole")
        for pro, anti, kind in zip(pros, antis, kinds, strict=True)
        if pro != anti
    ]
    return named(paths, pairs)


def _sentence(path: Path, number: int, line: str) -> str:
    found = re.fullmatch(r"\d+ (\S.*)", line.strip())
    if found is None or "[" not in line:
        raise UserError(
            f"{path}, line {number} is no line of WinoBias", "expected: 1 [The x] did it for the y because [he] ..."
        )
    return found[1].replace("[", "").replace("]", "")
