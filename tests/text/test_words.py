"""Tokens find their words, whatever the vocabulary."""

from pathlib import Path

from regard.text.load import load
from regard.text.tokenizer import Tokenizer
from regard.text.words import token_name, words_read, words_written

TEXT = "The naïve café costs 12.50 euros, 😀 really."


def joined(names: tuple[str, ...], groups: tuple[int, ...]) -> list[str]:
    words = [""] * (groups[-1] + 1)
    for name, group in zip(names, groups, strict=True):
        words[group] += name
    return words


def test_the_words_of_a_text_that_was_read_are_its_own(any_kind: Tokenizer) -> None:
    text = "The book costs much, really."
    encoding = any_kind.encode(text)
    words = words_read(encoding, text)
    special = set(any_kind.special.values())
    assert [word for word in joined(*words) if word not in special] == text.split()
    assert len(words.names) == len(encoding.ids)


def test_the_words_of_a_text_that_was_written_are_its_own(any_kind: Tokenizer) -> None:
    ids = any_kind.encode(TEXT, special=False).ids
    special = set(any_kind.special.values())  # what is unknown is a word, but no text
    words = [word for word in joined(*words_written(ids, any_kind)) if word not in special]
    assert "".join(words).replace(" ", "") == any_kind.decode(ids).replace(" ", "")


def test_a_letter_of_several_tokens_is_named_once(gpt2_dir: Path) -> None:
    gpt2 = load(gpt2_dir)
    assert joined(*words_read(gpt2.encode(TEXT), TEXT)) == TEXT.split()
    assert joined(*words_written(gpt2.encode(TEXT).ids, gpt2)) == TEXT.split()
    assert token_name(10**6, gpt2) == "<1000000>"
