"""The replay of a split is the library's own split, and every step of it is the one the algorithm takes."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, pre_tokenizers

from regard.errors import UserError
from regard.text.explain import BYTES, MAX_WORD, explain, readable
from regard.text.load import load
from regard.text.tokenizer import Tokenizer
from regard.text.train import Kind, TokenizerConfig, train

LECTURE = "Aragorn told Frodo to mind Lothlorien"


@pytest.fixture(scope="module")
def t5(t5_dir: Path) -> Tokenizer:
    return load(t5_dir)


def by_hand(model: models.Model, **special: str) -> Tokenizer:
    core = tokenizers.Tokenizer(model)
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(core, special=special)


def check(tokenizer: Tokenizer, text: str) -> None:
    """`explain` itself refuses a replay that ends elsewhere; this is what it promises on top."""
    found = explain(tokenizer, text)
    encoding, inner = tokenizer.encode(text), tokenizer.encode(text, special=False)
    assert (found.ids, found.tokens) == (encoding.ids, encoding.tokens)
    assert [token for word in found.words for token in word.tokens] == inner.tokens
    assert all(0 <= start <= end <= len(text) for start, end in (word.offsets for word in found.words))


# ---- equal to the library


def test_real_vocabularies_are_replayed_to_their_own_tokens(any_kind: Tokenizer, lines: list[str]) -> None:
    for line in lines[::10] + lines[:19]:
        check(any_kind, line)


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("kind", get_args(Kind))
def test_learnt_vocabularies_are_replayed_to_their_own_tokens(
    lines: list[str], kind: Kind, byte_fallback: bool
) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=1300, byte_fallback=byte_fallback)
    tokenizer = train(lines[40:], config, purpose="translation")
    for line in lines[::16] + lines[:19]:
        check(tokenizer, line)


MERGES = [("a", "b"), ("ab", "a"), ("b", "a"), ("a", "a"), ("ab", "ab"), ("ba", "ba"), ("a", "ba"), ("b", "b")]
SUFFIXED = [("a", "b"), ("b", "a</w>"), ("ab", "a</w>"), ("a", "a"), ("ab", "ba</w>"), ("a", "b</w>")]
PREFIXED = [("a", "##b"), ("##b", "##a"), ("ab", "##a"), ("##a", "##a"), ("ab", "##ba")]
BPES: dict[str, tuple[list[tuple[str, str]], dict[str, Any]]] = {
    "plain": (MERGES, {}),
    "unknown": (MERGES, {"unk_token": "?"}),
    "fused": (MERGES, {"unk_token": "?", "fuse_unk": True}),
    "bytes": (MERGES, {"unk_token": "?", "byte_fallback": True}),
    "whole": (MERGES, {"ignore_merges": True}),
    "suffix": (SUFFIXED, {"unk_token": "?", "end_of_word_suffix": "</w>"}),
    "prefix": (PREFIXED, {"unk_token": "?", "continuing_subword_prefix": "##"}),
}


def made(name: str) -> Tokenizer:
    merges, options = BPES[name]
    suffix, prefix = options.get("end_of_word_suffix", ""), options.get("continuing_subword_prefix", "")
    joined = [left + right[len(prefix) :] for left, right in merges]
    letters = [before + letter + after for before in ("", prefix) for letter in "ab" for after in ("", suffix)]
    more = (*BYTES, "?") if name == "bytes" else ("?",)
    vocabulary = dict.fromkeys([*letters, *joined, *more, "baab"])
    return by_hand(models.BPE({token: id for id, token in enumerate(vocabulary)}, merges, **options), unk="?")


@pytest.mark.parametrize("name", BPES)
@settings(max_examples=150)
@given(text=st.text(alphabet="aaabbbxé ", max_size=24))
def test_every_option_of_byte_pair_encoding_is_replayed(name: str, text: str) -> None:
    check(made(name), text)


@settings(max_examples=100)
@given(text=st.text(max_size=40))
def test_any_text_is_explained(gpt2: Tokenizer, bert: Tokenizer, t5: Tokenizer, text: str) -> None:
    for tokenizer in (gpt2, bert, t5):
        check(tokenizer, text)


# ---- the steps


def test_the_lecture_s_sentence_has_the_lecture_s_twelve_tokens(gpt2: Tokenizer) -> None:
    found = explain(gpt2, LECTURE)
    theirs = ["Ar", "ag", "orn", "told", "Fro", "do", "to", "mind", "L", "oth", "lor", "ien"]
    assert [readable(gpt2, token).removeprefix("▁") for token in found.tokens] == theirs
    first = found.words[0]
    assert (first.text, first.offsets, first.symbols) == ("Aragorn", (0, 7), list("Aragorn"))
    assert first.steps[-1].symbols == first.tokens == ["Ar", "ag", "orn"]


def test_each_merge_joins_the_neighbours_that_were_learnt_first(gpt2: Tokenizer, gpt2_files: dict[str, bytes]) -> None:
    rules = gpt2_files["merges__txt"].decode("utf-8").split("\n")[1:]
    for word in explain(gpt2, LECTURE).words:
        before = word.symbols
        for step in word.steps:
            assert rules[step.rank] == " ".join(step.parts)
            possible = {" ".join(pair) for pair in itertools.pairwise(before)}
            assert not possible.intersection(rules[: step.rank])
            assert "".join(step.symbols) == "".join(before)
            assert len(step.symbols) == len(before) - 1
            before = step.symbols
        assert not {" ".join(pair) for pair in itertools.pairwise(before)}.intersection(rules)


def test_wordpiece_takes_the_longest_piece_each_time(bert: Tokenizer) -> None:
    (word,) = explain(bert, "Lothlorien").words
    assert [step.parts for step in word.steps] == [[token] for token in word.tokens]
    rest = word.text
    for step in word.steps:
        taken = step.parts[0].removeprefix("##")
        longer = [rest[:cut] for cut in range(len(taken) + 1, len(rest) + 1)]
        mark = "" if rest == word.text else "##"
        assert step.rank == len(longer)
        assert all(bert.id_of(mark + piece) is None for piece in longer)
        rest = rest.removeprefix(taken)
    assert rest == ""


def test_a_word_that_wordpiece_cannot_end_is_unknown_as_a_whole() -> None:
    model = models.WordPiece({"?": 0, "a": 1, "##b": 2}, unk_token="?")
    (word,) = explain(by_hand(model, unk="?"), "abx").words
    assert word.tokens == ["?"]
    assert [step.parts for step in word.steps] == [["a"], ["##b"]]


PIECES = {"?": -1.0, "a": -2.5, "b": -3.0, "ab": -4.0, "ba": -4.25, "aba": -7.0, "bb": -5.0}


def every_split(word: str) -> Iterator[list[str]]:
    if not word:
        yield []
    for cut in range(1, len(word) + 1):
        if word[:cut] in PIECES:
            yield from ([word[:cut], *rest] for rest in every_split(word[cut:]))


@settings(max_examples=60)
@given(word=st.text(alphabet="ab", min_size=1, max_size=9))
def test_unigram_shows_the_two_best_of_all_splits(word: str) -> None:
    (found,) = explain(by_hand(models.Unigram(list(PIECES.items()), 0), unk="?"), word).words
    totals = sorted((sum(PIECES[piece] for piece in split) for split in every_split(word)), reverse=True)
    assert [split.total for split in found.splits] == totals[:2]
    for split in found.splits:
        assert "".join(split.pieces) == word
        assert split.scores == [PIECES[piece] for piece in split.pieces]
    assert found.tokens == found.splits[0].pieces


def test_an_added_token_is_a_word_without_steps(t5: Tokenizer) -> None:
    words = explain(t5, "a </s> b").words
    assert [(word.text, word.tokens, word.symbols) for word in words][1] == ("</s>", ["</s>"], [])
    assert words[0].splits


def test_an_added_token_that_takes_the_space_before_it_is_found() -> None:
    core = tokenizers.Tokenizer(models.BPE({"a": 0}, []))
    core.add_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    check(Tokenizer(core, special={"mask": "<mask>"}), "a <mask>a")


def test_no_text_has_no_words(bert: Tokenizer) -> None:
    found = explain(bert, "")
    assert (found.tokens, found.words) == (["[CLS]", "[SEP]"], [])


def test_an_explanation_is_plain_data(any_kind: Tokenizer) -> None:
    found = explain(any_kind, LECTURE).to_dict()
    again = json.loads(json.dumps(found))
    assert set(again) == {"text", "algorithm", "ids", "tokens", "words"}
    assert set(again["words"][0]) == {"text", "offsets", "tokens", "symbols", "steps", "splits"}


# ---- what is refused


def test_an_endless_word_is_refused(gpt2: Tokenizer) -> None:
    explain(gpt2, "a" * MAX_WORD)
    with pytest.raises(UserError, match=r"a word of 2,001 letters"):
        explain(gpt2, "a" * (MAX_WORD + 1))


def test_a_split_at_random_is_not_explained() -> None:
    tokenizer = by_hand(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], dropout=1.0))
    with pytest.raises(UserError, match="at random"):
        explain(tokenizer, "ab")


# ---- readable


@pytest.mark.parametrize(
    ("token", "expected"),
    [("Ġtold", "▁told"), ("Ã£o", "ão"), ("Ã", "Ã"), ("Ċ", "\\n"), ("<|endoftext|>", "<|endoftext|>")],
)
def test_bytes_are_shown_as_the_letters_they_spell(gpt2: Tokenizer, token: str, expected: str) -> None:
    assert readable(gpt2, token) == expected


def test_letters_stay_letters_where_tokens_are_not_bytes(t5: Tokenizer) -> None:
    assert [readable(t5, token) for token in ("Ġ", "▁Ã£", "a\u2028b")] == ["Ġ", "▁Ã£", "a\\u2028b"]
    assert not t5.is_byte_level
