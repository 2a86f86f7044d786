"""Words with their places in a text, as CoNLL files have them, and the tokens at which a model reads them.

White space separates words; punctuation around a word is a word of its own, a run of one sign ("...", "!!") is one.
What belongs together stays: U.S., O'Brien, e-mail, AT&T, 3.14, 10:30, @user, #tag, addresses of pages and people; the
English 's, 'm, 'd, 're, 've, 'll stand alone, as they do in CoNLL's files. Each Chinese character is a word.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from regard.text.sentences import ABBREVIATIONS

Offsets = Sequence[tuple[int, int]]
"Where each token stands in the text, in characters."


class Word(NamedTuple):
    text: str
    start: int
    end: int


_MARK, _GLUE, _ALONE, _FLAG = "\u0300", "\u200d", "\x00", "\U0001f1e6"
"What a word's pattern is told of accents and their like, of the joiner between emoji, of Chinese, of half a flag."
_SAME = {"\u2019": "'", "\uff07": "'", "\u2010": "-", "\u2011": "-", "\u2212": "-", "\uff20": "@", "\uff03": "#"}
_INSIDE = "\u00ad\u200c"
"Signs that are not seen and part no word: the soft hyphen and the non-joiner."


class _Shapes(dict[int, str]):
    """Each character as the pattern sees it: one for one, so that places stay."""

    def __missing__(self, code: int) -> str:
        self[code] = shape = _shape(chr(code))
        return shape


def _shape(char: str) -> str:
    if unicodedata.category(char).startswith("M") or char in _INSIDE or "\U0001f3fb" <= char <= "\U0001f3ff":
        return _MARK
    if "\U0001f1e6" <= char <= "\U0001f1ff":
        return _FLAG
    name = unicodedata.name(char, "")
    return _ALONE if name.startswith("CJK") and char.isalpha() else _SAME.get(char, char)


_SHAPES = _Shapes()
_W, _SIGN = rf"[\w{_MARK}{_GLUE}]", rf"[^\w\s{_MARK}{_GLUE}{_ALONE}]"
_CLITIC = rf"'(?i:s|m|d|re|ve|ll)(?!{_W})"
_ABBREVIATIONS = frozenset(" ".join(ABBREVIATIONS.values()).split())
_WORD = re.compile(
    rf"""{_W}++(?!\S)                                      # most words, at once
    | (?:(?i:https?|ftp)://|(?i:www)\.)[!-~\w]*[\w/=&\#]
    | \w[\w.+-]{{0,63}}+@\w+(?:[.-]\w+)*\.\w+            # bounded: else a long row of signs is read from each of them
    | [@\#]{_W}+
    | (?:[^\W\d_]{{1,2}}\.){{2,}}(?:-{_W}+)*(?!{_W})     # U.S., e.g., Ph.D., U.S.-based
    | [A-HJ-ZÀ-ÖØ-Þ]\.(?=\s+\w)                          # an initial; I is a word
    | (?<!\S)[:;=]['-]?[()DPOpo/|*](?!{_W})               # :-)
    | &(?:amp|lt|gt|quot|\#\d{{1,6}});
    | {_CLITIC}
    | (?:(?<!{_W})[-+.](?=\d))?{_W}+(?:(?:[-.&·]|(?!{_CLITIC})'|(?<=\d)[,:/](?=\d)){_W}+)*
    | {_FLAG}{{2}}
    | ({_SIGN})(?:\1|{_MARK}|{_GLUE}{_SIGN}?)*
    | \S""",
    re.VERBOSE,
)


def words_of(text: str) -> list[Word]:
    """In order; every character that is not white space is in exactly one."""
    shape = text if text.isascii() else text.translate(_SHAPES)
    spans: list[tuple[int, int]] = []
    for found in _WORD.finditer(shape):
        start, end = found.span()
        if found[0] == "." and spans and spans[-1][1] == start and text[slice(*spans[-1])].lower() in _ABBREVIATIONS:
            start, _ = spans.pop()
        spans.append((start, end))
    return [Word(text[start:end], start, end) for start, end in spans]


def joined(words: Sequence[str]) -> tuple[str, list[Word]]:
    """Words that someone else has cut, as one text with a space between them, and their places in it."""
    found, start = [], 0
    for word in words:
        found.append(Word(word, start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), found


def first_tokens(text: str, words: Sequence[Word], offsets: Offsets) -> list[int | None]:
    """For each word the first token that begins in it, or none: a model reads a word there."""
    return [each[0] if each else None for each in tokens_in(text, words, offsets)]


def tokens_in(text: str, words: Sequence[Word], offsets: Offsets) -> list[list[int]]:
    """For each word the tokens that begin in it.

    The space before a word is no part of it, though some vocabularies count it to the token. A token that holds the end
    of one word and the next word whole belongs to the first; what is left without is what the vocabulary leaves out.
    """
    starts = [word.start for word in words]
    found: list[list[int]] = [[] for _ in words]
    for token, (start, end) in enumerate(offsets):
        begin = start + len(text[start:end]) - len(text[start:end].lstrip())
        number = bisect_right(starts, begin) - 1
        if begin < end and number >= 0 and begin < words[number].end:
            found[number].append(token)
    return found
