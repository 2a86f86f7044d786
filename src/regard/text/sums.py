"""Sums of words, as people write them: man + aunt - uncle."""

import re

from regard.errors import QUOTED, USAGE, UserError, cut

Words = tuple[str, ...]


def sum_of(text: str) -> tuple[Words, Words]:
    """The words with a plus, and those with a minus. Three words alone, a b c, ask what is to c as b is to a."""
    parts = re.findall(r"[+−-]|[^\s+−-]+", text)
    if len(parts) == 3 and not any(map(_is_sign, parts)):
        first, second, third = parts
        return (second, third), (first,)
    words, signs = parts[::2], ["+", *parts[1::2]]
    if len(words) != len(signs) or any(map(_is_sign, words)) or not all(map(_is_sign, signs)):
        hint = 'write for example "man - uncle + aunt", three words as in "uncle aunt man", or one word'
        raise UserError(f"'{cut(text, QUOTED)}' is no sum of words", hint, exit_code=USAGE)
    pairs = list(zip(signs, words, strict=True))
    return tuple(word for sign, word in pairs if sign == "+"), tuple(word for sign, word in pairs if sign != "+")


def _is_sign(part: str) -> bool:
    return part in {"+", "-", "−"}
