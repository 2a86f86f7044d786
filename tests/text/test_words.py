"""Tokens find their words, whatever the vocabulary."""

from pathlib import Path

import pytest

from regard.text.load import load
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig, train
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


SPACED = ["a é b", "Ein 本 x", "a  b", " 本 本", "x ☃ ☃ y", "本"]


@pytest.fixture(scope="module")
def lone_spaces() -> Tokenizer:
    """A vocabulary so small that a space is often a token of its own."""
    return train(["ein haus", "ein x y b"] * 3, TokenizerConfig(vocab_size=290), purpose="translation")


@pytest.mark.parametrize("text", SPACED)
def test_a_lone_space_is_no_word_of_its_own(lone_spaces: Tokenizer, text: str) -> None:
    encoding = lone_spaces.encode(text)
    assert "▁" in encoding.tokens
    assert joined(*words_read(encoding, text)) == [*text.split(), "</s>"]
    assert joined(*words_written(encoding.ids, lone_spaces)) == [*text.split(), "</s>"]


def test_spaces_that_nothing_follows_are_shown_as_their_tokens(lone_spaces: Tokenizer) -> None:
    for text, words in {"b ": ["b", "▁"], "  ": ["▁▁▁"]}.items():
        plain = lone_spaces.encode(text, special=False)
        assert joined(*words_read(plain, text)) == words
        assert joined(*words_written(plain.ids, lone_spaces)) == words
        assert joined(*words_written(lone_spaces.encode(text).ids, lone_spaces)) == [*text.split(), "</s>"]


def test_every_byte_of_a_letter_belongs_to_its_word(gpt2_dir: Path) -> None:
    gpt2 = load(gpt2_dir)
    text = "one 本 two"
    ids = gpt2.encode(text).ids
    written = words_written(ids, gpt2)
    assert joined(*written) == text.split()
    assert written.groups == words_read(gpt2.encode(text), text).groups
    assert all(words_written(ids[:n], gpt2).names for n in range(1, len(ids)))  # half a letter is no trouble
