"""Which tokens make up a word, on both sides of a translation: found in the text itself, so for any vocabulary."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.errors import UserError
from regard.text.tokenizer import Encoding, Tokenizer


class Words(NamedTuple):
    names: tuple[str, ...]
    "What each token stands for in the text; the token itself where it stands for nothing."
    groups: tuple[int, ...]
    "The number of each token's word; special tokens are words of their own, with a space before them."


def words_read(encoding: Encoding, text: str) -> Words:
    """Of a text that was encoded, by where its tokens stand in it."""
    pieces: list[str | None] = []
    shown = 0
    for start, end in encoding.offsets:
        # With the space before it; of several tokens in one letter, the first stands for it.
        pieces.append(None if start == end else text[shown:end])
        shown = max(shown, end)
    return _grouped(pieces, encoding.tokens)


def words_written(ids: Sequence[int], tokenizer: Tokenizer) -> Words:
    """Of a text that a model wrote, by what each token adds to it."""
    tokens = [token_name(id, tokenizer) for id in ids]
    special = set(tokenizer.special.values())
    pieces: list[str | None] = []
    shown = ""
    for i, token in enumerate(tokens):
        text = tokenizer.decode(ids[: i + 1]).rstrip("\ufffd")  # half a letter: the rest is to come
        longer = text.startswith(shown)
        pieces.append(None if token in special else text[len(shown) :] if longer else "")
        shown = text if longer else shown
    return _grouped(pieces, tokens)


def token_name(id: int, tokenizer: Tokenizer) -> str:
    try:
        return tokenizer.token_of(id)
    except UserError:  # a row that the model has to spare
        return f"<{id}>"


def _grouped(pieces: Sequence[str | None], tokens: Sequence[str]) -> Words:
    names, groups, word = [], [], -1
    apart, blank = True, False
    for piece, token in zip(pieces, tokens, strict=True):
        if apart or ((piece is None or piece[:1].isspace()) and not blank):
            word, blank = word + 1, True
        names.append(token if piece is None else piece.strip())
        groups.append(word)
        blank = blank and not names[-1]  # a space that is a token of its own begins whatever follows
        apart = piece is None or (piece[-1:].isspace() and not blank)
    said = {group for name, group in zip(names, groups, strict=True) if name}
    rows = zip(names, groups, tokens, strict=True)  # spaces that nothing follows are shown as their tokens
    return Words(tuple(name if group in said else token for name, group, token in rows), tuple(groups))
