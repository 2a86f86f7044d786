"""Words are found where CoNLL's files have them, at their places in any text, and tokens find their words."""

import gzip
import unicodedata
from pathlib import Path

import pytest
import transformers as hf
from hypothesis import example, given
from hypothesis import strategies as st

from data import vocabularies
from regard.data.words import first_tokens, joined, words_of
from regard.text.tokenizer import Tokenizer

ANY_TEXT = st.text(max_size=60) | st.text(
    st.sampled_from("aZé9 .,'’-@#:/()&\t\n\u00a0\u0301\u200b\u200d\ufe0f\u4e2d\u0939\u093f😀🇵👍🏽½…"), max_size=40
)


@pytest.fixture(scope="session", params=vocabularies.KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return vocabularies.opened(vocabularies.directory(request, request.param))


@pytest.fixture(scope="session")
def sentences(data_dir: Path) -> list[list[str]]:
    """Of WNUT17, cut into words by its makers."""
    with gzip.open(data_dir / "wnut17" / "wnut17train.conll.gz", "rt", encoding="utf-8") as file:
        texts = file.read().split("\n\t\n")
    return [[line.split("\t")[0] for line in text.split("\n") if line.strip()] for text in texts]


@given(ANY_TEXT)
@example("\x1c\x85\u2028a\u3000b")
@example("\u0301a\u200d\x00")
def test_words_stand_in_order_and_hold_every_character_but_white_space_once(text: str) -> None:
    words, end = words_of(text), 0
    for word in words:
        assert end <= word.start < word.end
        assert not text[end : word.start].strip()
        assert word.text == text[word.start : word.end]
        assert not any(char.isspace() for char in word.text)
        end = word.end
    assert not text[end:].strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("President Obama flew.", "President Obama flew ."),
        ('"Well," he (almost) said...', '" Well , " he ( almost ) said ...'),
        ("U.S.-based firms in the U.S., e.g. Ph.D.s", "U.S.-based firms in the U.S. , e.g. Ph.D.s"),
        ("Mr. O'Brien's e-mail", "Mr. O'Brien 's e-mail"),
        ("It’s J. S. Bach, not I.", "It ’s J. S. Bach , not I ."),
        ("It 's, I 'm", "It 's , I 'm"),
        ("don't @user, #tag! me@ex.org.", "don't @user , #tag ! me@ex.org ."),
        ("(see http://bit.ly/x?a=b).", "( see http://bit.ly/x?a=b ) ."),
        ("$3.14, 1,000 at 10:30, -5", "$ 3.14 , 1,000 at 10:30 , -5"),
        ("AT&T's :-) &amp; yes—no!!", "AT&T 's :-) &amp; yes — no !!"),
        ("हिन्दी cafe\u0301, می‌خواهم", "हिन्दी cafe\u0301 , می‌خواهم"),
        ("日本語の文。", "日 本 語 の 文 。"),
        ("👩‍👩‍👧🇵🇹🇩🇪❤️👍🏽ok", "👩‍👩‍👧 🇵🇹 🇩🇪 ❤️ 👍🏽 ok"),
    ],
)
def test_what_belongs_together_stays_together(text: str, words: str) -> None:
    assert [word.text for word in words_of(text)] == words.split()


def test_words_of_tweets_are_found_where_their_makers_cut_them(sentences: list[list[str]]) -> None:
    """In 98 of 100; the rest are mostly I'm and its like, which the makers cut now so, now so."""
    n_found = n_words = 0
    for row in sentences:
        text, words = joined(row)
        n_found += len({*words} & {*words_of(text)})
        n_words += len(words)
    assert n_words > 60_000
    assert n_found / n_words > 0.98


@pytest.mark.parametrize("unit", ["+.", "a.", "a@", "'s", "-5", "http://", "a-a@", ":)", "\u200d😀", "a\u0301"])
def test_long_texts_take_time_in_proportion(unit: str) -> None:
    """A pattern that looks ahead from each sign would need hours."""
    assert words_of(unit * 20_000)


def test_words_that_are_given_keep_their_cut() -> None:
    text, words = joined(["", "New York", "'s", ""])
    assert text == " New York 's "
    assert [text[start:end] for _, start, end in words] == [word for word, _, _ in words] == ["", "New York", "'s", ""]


# Tokens and words


@given(ANY_TEXT)
@example("a\u200bb \u200b c")
@example("(Obama).")
@example("  \u00a0½… e\u0301\u0301 中文")
def test_each_word_is_read_at_the_first_token_that_begins_in_it(tokenizer: Tokenizer, text: str) -> None:
    words, offsets = words_of(text), tokenizer.encode(text, special=False).offsets
    begins = [next((i for i in range(*pair) if not text[i].isspace()), None) for pair in offsets]
    ours = first_tokens(text, words, offsets)
    theirs = [
        next((token for token, at in enumerate(begins) if at is not None and start <= at < end), None)
        for _, start, end in words
    ]
    assert ours == theirs
    found = [token for token in ours if token is not None]
    assert found == sorted(set(found))  # no token is the first of two words


def test_a_word_of_letters_always_has_a_token(tokenizer: Tokenizer, sentences: list[list[str]]) -> None:
    for row in sentences[::20]:
        text, words = joined(row)
        found = first_tokens(text, words, tokenizer.encode(text, special=False).offsets)
        for word, token in zip(words, found, strict=True):
            assert token is not None or unicodedata.category(word.text[0]) not in ("Lu", "Ll"), word


@pytest.mark.parity
def test_first_tokens_equal_those_of_transformers(bert_dir: Path, sentences: list[list[str]]) -> None:
    """Theirs are told the words, ours find them by their places."""
    theirs, ours = hf.BertTokenizerFast.from_pretrained(bert_dir), vocabularies.opened(bert_dir)
    for row in sentences[::10]:
        text, words = joined(row)
        numbers = theirs(row, is_split_into_words=True, add_special_tokens=False).word_ids()
        expected = [numbers.index(i) if i in numbers else None for i in range(len(row))]
        assert first_tokens(text, words, ours.encode(text, special=False).offsets) == expected
