"""Tags of words (IOB1, IOB2, IOBES, BILOU, BMES) and the spans they mark.

The reading is seqeval's default, that of conlleval.pl: each scheme is told by its letters, and a span that starts
with I or ends without E is a span all the same. L, U and M are other names for E, S and I.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from regard.config import require

TAG = re.compile(r"O|[BIESLUM]-\S+")
EXPECTED = "expected O, or B-TYPE, I-TYPE (also E-, S-, L-, U-, M-)"
_SAME = {"L": "E", "U": "S", "M": "I"}


class Span(NamedTuple):
    type: str
    first: int
    last: int
    "The last word's place, not the one behind it."


def is_tag(text: str) -> bool:
    return TAG.fullmatch(text) is not None


def spans_of(tags: Sequence[str]) -> list[Span]:
    spans: list[Span] = []
    is_open = False  # the last span may go on
    for place, tag in enumerate(tags):
        require(is_tag(tag), f"word {place + 1} has the tag '{tag}'", EXPECTED)
        letter, _, kind = tag.partition("-")
        letter = _SAME.get(letter, letter)
        if is_open and letter in "IE" and kind == spans[-1].type:
            spans[-1] = spans[-1]._replace(last=place)
        elif letter != "O":
            spans.append(Span(kind, place, place))
        is_open = letter in "BI"
    return spans
