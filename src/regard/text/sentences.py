"""Sentences out of paragraphs, by rule, and long ones cut where it hurts least.

Nothing is ever lost: the parts joined are the text. A sentence that is missed does little harm, one cut in two
does much, so what is in doubt stays together. Abbreviations are those of English, German and Portuguese.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

ABBREVIATIONS = {
    "en": "mr mrs ms dr st prof rev hon gen col capt lt sgt maj gov sen rep messrs mt inc ltd co corp vs cf eg ie dept",
    "de": "hr fr frl dipl ing bzw ca evtl ggf inkl mio mrd sog str usw vgl zb dh ua hrsg",
    "pt": "sr sra srta dra drs dras profa exmo exma ilmo ilma eng arq av trav aprox ltda cia obs cel",
}
BEFORE_NUMBERS = {
    "en de pt": "no nos nº núm nr fig figs vol vols pp pág págs art abs cap bd tel approx jan feb fev mar"
}
ORDINALS = {"de": "januar februar märz april mai juni juli august september oktober november dezember jahrhundert"}
"What a number with a full stop may count: am 3. Oktober."

# The end: stops, what closes behind them, and space; or a stop of the East, which needs none.
# It begins where no stop is before it: a long row of dots is then read once, not once from each dot.
_STOP = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’“»)\]]*+(?=\s)|[。！？]++[」』”]*+")
_SPACE = re.compile(r"\s*")
_LAST_WORD = re.compile(r"[^\s\"'“”‘’«»(\[]*\Z")
_NEXT_WORD = re.compile(r"\w+")
_OPENING = "\"'“‘«„(¿¡[—–-"
_CLAUSE = re.compile(r"[,;:)»”—–]\s+|[，；：、]")
_LAYOUT = re.compile(r"\s*(?:(?:[-*•‣◦–—>]|#{1,6}|\d{1,3}[.)]|\(?[a-z]\))\s+)*")
_NAMES, _BEFORE_NUMBERS, _ORDINALS = (
    frozenset(" ".join(table.values()).split()) for table in (ABBREVIATIONS, BEFORE_NUMBERS, ORDINALS)
)
_LAST_CHARS = 40
"A word before a stop that is longer is no abbreviation."


def split_sentences(text: str) -> list[str]:
    """The sentences, each with the space behind it."""
    return _cut(text, _sentence_ends(text))


def _sentence_ends(text: str) -> list[int]:
    """Where each sentence starts that is not the first."""
    found = []
    for stop in _STOP.finditer(text):
        start = _SPACE.match(text, stop.end()).end()  # type: ignore[union-attr]  # it matches nothing too
        if start < len(text) and _ends(text, stop, start):
            found.append(start)
    return found


def _ends(text: str, stop: re.Match[str], start: int) -> bool:
    if stop[0][0] in "。！？":
        return True
    first = text[start]
    if first.islower() or not (first.isalnum() or first in _OPENING):
        return False
    if stop[0].rstrip("\"'”’“»)]") != ".":  # a question, a cry, dots
        return True
    before = _LAST_WORD.search(text, max(0, stop.start() - _LAST_CHARS), stop.start())
    word = before[0].lower().replace(".", "") if before else ""
    if word.isdigit():
        after = _NEXT_WORD.match(text, start)
        return not (len(word) <= 2 and after and after[0].lower() in _ORDINALS)
    # An initial (J. S. Bach) or one of several letters (z. B.); only the English I is a word.
    is_initial = len(word) == 1 and word.isalpha() and text[stop.start() - 1] != "I"
    return not (is_initial or word in _NAMES or (word in _BEFORE_NUMBERS and first.isdigit()))


def _cut(text: str, places: Sequence[int]) -> list[str]:
    edges = [0, *places, len(text)]
    return [text[start:end] for start, end in pairwise(edges) if start < end]


class Segment(NamedTuple):
    text: str
    is_text: bool
    "Whether it is to be read; layout (space, bullets, line ends) is not."


def segments(text: str, *, split: bool = True) -> list[Segment]:
    """Sentences and the layout between them; without `split` one text between its outer spaces."""
    if split:
        return [segment for line in re.split(r"(\n)", text) for segment in _segments_of_line(line)]
    bare = text.strip()
    before, _, after = text.partition(bare) if bare else ("", "", text)
    return [Segment(part, is_text) for part, is_text in ((before, False), (bare, True), (after, False)) if part]


def _segments_of_line(line: str) -> Iterator[Segment]:
    start = _LAYOUT.match(line).end()  # type: ignore[union-attr]  # it matches nothing too
    if start:
        yield Segment(line[:start], False)
    for sentence in split_sentences(line[start:]):
        bare = sentence.rstrip()
        yield Segment(bare, True)
        if bare != sentence:
            yield Segment(sentence[len(bare) :], False)


def cut_long(text: str, ends: Sequence[int], room: int) -> tuple[list[str], bool]:
    """Parts of at most `room` tokens, which end at the characters `ends`; False where a clause had to be cut.

    A part ends with a sentence if it can, else with a clause, else with a word, else anywhere.
    """
    levels = [
        _sentence_ends(text),
        [found.end() for found in _CLAUSE.finditer(text)],
        [found.end() for found in re.finditer(r"\s+", text)],
    ]
    places, start, token, clean = [], 0, 0, True
    while len(ends) - token > room:
        last = ends[token + room - 1]
        level, place = _last_place(levels, start, last)
        clean &= level < 2
        places.append(place)
        start, token = place, bisect_right(ends, place, lo=token)
    return _cut(text, places), clean


def _last_place(levels: Sequence[Sequence[int]], start: int, last: int) -> tuple[int, int]:
    for level, places in enumerate(levels):
        index = bisect_left(places, last + 1) - 1
        if index >= 0 and places[index] > start:
            return level, places[index]
    return len(levels), last
