"""Entities as a tag a word: B- begins one, I- goes on, O is none (Ramshaw and Marcus 1995); E- ends and S- is alone.

Plain tags such as NOUN say what each word is, and O may stand beside them. Entities are read as seqeval reads them by
default: an I- without its beginning begins an entity, so no tag is lost.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
TAG = re.compile(r"O|[BIESLUM]-\S+")
PLAIN = re.compile(r"(?![A-Z]-|[BIESLUM]$)\S{1,64}")
"One letter before a hyphen, or one that begins entities by itself, is a slip of the pen."
EXPECTED = "expected O, or B-TYPE, I-TYPE (also E-, S-, L-, U-, M-); or plain tags such as NOUN, and then no others"
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


def wrong_tag(tags: Iterable[str]) -> str | None:
    """The first that is none at all, or not of the kind that the ones before it are."""
    marks_entities: bool | None = None
    for tag in tags:
        if tag == OUTSIDE:
            continue
        if not is_tag(tag) and not PLAIN.fullmatch(tag):
            return tag
        if marks_entities not in (None, is_tag(tag)):
            return tag
        marks_entities = is_tag(tag)
    return None


def mark_entities(tags: Iterable[str]) -> bool:
    """Whether some words are outside of what is looked for; else each word is of some kind, as in parts of speech."""
    return any(map(is_tag, tags))


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
