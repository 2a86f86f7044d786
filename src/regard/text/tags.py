"""Entities as a tag a word: B- begins one, I- goes on, O is none (Ramshaw and Marcus 1995); E- ends and S- is alone.

They are read as seqeval reads them by default: an I- without its beginning begins an entity, so no tag is lost.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

OUTSIDE = "O"
TAG = re.compile(r"O|[BIESLUM]-\S+")
EXPECTED = "expected O, or B-TYPE, I-TYPE (also E-, S-, L-, U-, M-)"
_SAME = {"L": "E", "U": "S", "M": "I"}
"Other names for them, in BILOU and BMES."


class Span(NamedTuple):
    label: str
    first: int
    last: int
    "Numbers of words; the last one belongs to it."


def is_tag(text: str) -> bool:
    """Whether it is one of these, and not a bare label."""
    return TAG.fullmatch(text) is not None


def spans_of(tags: Sequence[str]) -> list[Span]:
    """In order. A tag that is none of these, such as PER or NOUN, goes on as I- does."""
    found: list[Span] = []
    before = OUTSIDE
    for i, tag in enumerate(tags):
        if goes_on(before, tag):
            found[-1] = found[-1]._replace(last=i)
        elif tag != OUTSIDE:
            found.append(Span(parsed(tag)[1], i, i))
        before = tag
    return found


def goes_on(before: str, tag: str) -> bool:
    """Whether a word with this tag belongs to the entity of the word before it."""
    (kind_before, label_before), (kind, label) = parsed(before), parsed(tag)
    return kind in ("I", "E", "") and kind_before in ("B", "I", "") and label_before == label


def steps(tags: Sequence[str]) -> list[list[bool]]:
    """Which of these tags may follow which, and in the last row, which may be the first: I- and E- need a beginning.

    Where no tag begins entities of a label (all of them are I-), they need none.
    """
    begun = {parsed(tag)[1] for tag in tags if parsed(tag)[0] in ("B", "S")}
    needs = {tag for tag in tags if parsed(tag)[0] in ("I", "E") and parsed(tag)[1] in begun}
    return [[tag not in needs or goes_on(before, tag) for tag in tags] for before in (*tags, OUTSIDE)]


def parsed(tag: str) -> tuple[str, str]:
    """What the tag does, and the label of its entity: `_` where it names none."""
    kind, _, label = tag.partition("-")
    kind = _SAME.get(kind, kind) if label else kind
    return (kind, label or "_") if kind in ("B", "I", "E", "S", OUTSIDE) else ("", tag)
