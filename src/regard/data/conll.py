"""Tagged words as in CoNLL's shared tasks: one a line, its tag in the last column, a blank line between sentences.

Columns stand apart by tabs, or by spaces where a line has no tab; those between word and tag are passed over. Words and
tags come out joined by single spaces, so white space inside a word (U+00A0 in "10 000") becomes "_": whichever way the
two are split again, they have the same number of parts.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from regard.data.lines import bare_lines
from regard.errors import QUOTED, UserError, cut
from regard.text.tags import EXPECTED, OUTSIDE, wrong_tag

MAX_SENTENCE = 1 << 20
"Characters of a sentence with its tags: in a file with more, the blank lines are missing."

_WHITE = re.compile(r"\s")


def read_conll(path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    """The words and the tags of each sentence, with the line that ended it."""
    words: list[str] = []
    tags: list[str] = []
    number, width, taken, known = 0, 0, 0, OUTSIDE
    for number, line in enumerate(bare_lines(path), 1):
        if not line.strip() or line.split(maxsplit=1)[0] == "-DOCSTART-":  # also a tab between two empty columns
            if words:
                yield number, (" ".join(words), " ".join(tags))
            words, tags, taken = [], [], 0
            continue
        where, columns = f"{path}, line {number}", _columns(line)
        width, taken = width or len(columns), taken + len(line)
        if len(columns) < 2 or len(columns) != width:
            hint = f"expected {max(width, 2)}, as before" if width > 1 else "expected a word and its tag"
            raise UserError(f"{where} has {len(columns)} columns", hint)
        if taken > MAX_SENTENCE:
            raise UserError(f"{where}: the sentence does not end", "put a blank line between sentences")
        words.append(_word(columns[0], where))
        tags.append(_tag(columns[-1], known, where))
        known = tags[-1] if known == OUTSIDE else known
    if words:
        yield number, (" ".join(words), " ".join(tags))


def _columns(line: str) -> list[str]:
    line = line.rstrip(" \t")
    if "\t" in line:
        return [column.strip(" ") for column in line.split("\t")]
    return [column for column in line.split(" ") if column]


def _word(text: str, where: str) -> str:
    if not text:
        raise UserError(f"{where} has no word before its tag", "write one, or leave the line blank")
    return _WHITE.sub("_", text)


def _tag(text: str, known: str, where: str) -> str:
    """`known` is a tag of the file, which has one kind of them."""
    if wrong_tag([known, text]) is not None:
        before = "" if known == OUTSIDE else f", and '{known}' before"
        raise UserError(f"{where} has the tag '{cut(text, QUOTED)}' in its last column{before}", EXPECTED)
    return text
