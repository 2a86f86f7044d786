"""A vocabulary learnt from text: its ids, its way back to the text, the same every time."""

import json
import subprocess
import sys
import tracemalloc
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from regard.errors import UserError
from regard.text.load import load
from regard.text.tokenizer import Tokenizer
from regard.text.train import SPECIAL, Kind, Purpose, TokenizerConfig, train

KINDS: tuple[Kind, ...] = get_args(Kind)
EXACT: tuple[Kind, ...] = ("bpe", "byte-bpe", "unigram", "char")
"Kinds that spell any text."
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
SIZE = 1300

Learn = Callable[..., Tokenizer]


@pytest.fixture(scope="module")
def corpus(lines: list[str]) -> list[str]:
    special = {token for tokens in SPECIAL.values() for token in tokens.values()}
    return [line for line in lines if not any(token in line for token in special)]


@pytest.fixture(scope="module")
def learn(corpus: list[str]) -> Learn:
    @cache
    def learnt(kind: Kind, purpose: Purpose = "translation", **options: object) -> Tokenizer:
        config = TokenizerConfig(kind=kind, **{"vocab_size": SIZE, **options})  # type: ignore[arg-type]
        return train(iter(corpus), config, purpose=purpose)

    return learnt


# ---- ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_translator_s_end_is_the_first_id_and_its_padding_the_last(learn: Learn, kind: Kind) -> None:
    tokenizer = learn(kind)
    assert (tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id) == (0, 1, tokenizer.vocab_size - 1)
    assert tokenizer.encode("a").ids[-1] == 0
    assert tokenizer.encode("").ids == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_model_s_texts_stand_between_cls_and_sep(learn: Learn, kind: Kind) -> None:
    tokenizer = learn(kind, "masked")
    found = tokenizer.encode("a", "b")
    assert [tokenizer.token_of(id) for id in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert (found.tokens[0], found.tokens[-1], found.tokens.count("[SEP]")) == ("[CLS]", "[SEP]", 2)
    assert (found.segments[0], found.segments[-1]) == (0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_stands_around_a_causal_model_s_texts(learn: Learn, kind: Kind) -> None:
    tokenizer = learn(kind, "causal")
    assert tokenizer.eos_id == 0
    assert tokenizer.encode("the").ids == tokenizer.encode("the", special=False).ids


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("kind", KINDS)
def test_ids_have_no_gaps_and_are_as_many_as_asked(learn: Learn, kind: Kind, purpose: Purpose) -> None:
    tokenizer = learn(kind, purpose)
    assert len({tokenizer.token_of(id) for id in range(tokenizer.vocab_size)}) == tokenizer.vocab_size
    assert tokenizer.vocab_size <= SIZE if kind == "char" else tokenizer.vocab_size == SIZE


def test_rare_words_and_characters_get_no_id() -> None:
    texts = ["a b a b c"]
    word = train(texts, TokenizerConfig(kind="word"), purpose="translation")
    char = train(texts, TokenizerConfig(kind="char", byte_fallback=False), purpose="translation")
    assert [word.id_of(token) is None for token in ("▁a", "▁c")] == [False, True]
    assert [char.id_of(token) is None for token in ("a", "c")] == [False, True]


# ---- the way back


@pytest.mark.parametrize("kind", EXACT)
@settings(max_examples=60)
@given(text=st.text())
def test_any_text_comes_back_exactly(learn: Learn, kind: Kind, text: str) -> None:
    tokenizer = learn(kind, normalise="none")
    assume(not any(token in text for token in tokenizer.special.values()))
    text = text.replace("▁", "_")  # read as a space by the kinds that write spaces so
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.parametrize("kind", EXACT)
def test_real_lines_come_back_in_normal_form(learn: Learn, corpus: list[str], kind: Kind) -> None:
    tokenizer = learn(kind)
    for line in corpus:
        assert tokenizer.decode(tokenizer.encode(line).ids) == unicodedata.normalize("NFC", line)


def test_known_words_come_back_with_their_spaces() -> None:
    text = 'He said: "no,  never!"'
    tokenizer = train([text, text], TokenizerConfig(kind="word"), purpose="translation")
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_wordpiece_gives_back_the_letters(learn: Learn) -> None:
    tokenizer = learn("wordpiece", "masked")
    text = "O livro está em cima da mesa, não?"
    assert "".join(tokenizer.decode(tokenizer.encode(text).ids).split()) == "".join(text.split())


def test_text_is_normalised_and_lowered_as_asked(learn: Learn) -> None:
    tokenizer = learn("bpe", normalise="nfkc", lowercase=True)
    assert tokenizer.decode(tokenizer.encode("ﬁVE Ａ e\u0301").ids) == "five a é"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
@settings(max_examples=60)
@given(text=st.text(alphabet=st.sampled_from("ab é\u0301中😀.,1\n")))
def test_offsets_point_at_the_letters_of_the_token(learn: Learn, kind: Kind, text: str) -> None:
    tokenizer = learn(kind, normalise="none")
    found = tokenizer.encode(text, special=False)
    for token, (start, end) in zip(found.tokens, found.offsets, strict=True):
        # Not what is unknown or a byte of a letter; nor the ▁ in front of all, which shares the first letter's place.
        if not token.startswith("<") and (start, token) != (0, "▁"):
            assert token.replace("▁", " ").strip(" ") == text[start:end].strip(" ")
    assert {place for start, end in found.offsets for place in range(start, end)} == set(range(len(text)))


# ---- the same every time


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_makes_the_same_file(learn: Learn, corpus: list[str], tmp_path: Path, kind: Kind) -> None:
    learn(kind).save(tmp_path / "a")
    train(iter(corpus), TokenizerConfig(kind=kind, vocab_size=SIZE), purpose="translation").save(tmp_path / "b")
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (tmp_path / "b" / "tokenizer.json").read_bytes()


def test_another_process_makes_the_same_file(learn: Learn, corpus: list[str], tmp_path: Path) -> None:
    (tmp_path / "texts.json").write_text(json.dumps(corpus))
    script = (
        "import json, sys; from pathlib import Path; from regard.text.train import *\n"
        "texts = json.loads(Path(sys.argv[1], 'texts.json').read_text())\n"
        f"for kind in {KINDS}:\n"
        f"    train(texts, TokenizerConfig(kind, {SIZE}), purpose='translation').save(Path(sys.argv[1], kind))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    for kind in KINDS:
        learn(kind).save(tmp_path / "here")
        theirs = (tmp_path / kind / "tokenizer.json").read_bytes()
        assert (tmp_path / "here" / "tokenizer.json").read_bytes() == theirs, kind


def test_texts_are_read_as_a_stream() -> None:
    def texts() -> Iterator[str]:
        for number in range(1000):
            yield f"line {number % 10} of a large file " * 100

    tracemalloc.start()
    train(texts(), TokenizerConfig(vocab_size=400), purpose="causal")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000  # of three million characters


@pytest.mark.parity
@pytest.mark.parametrize(("kind", "purpose"), [*((kind, "translation") for kind in KINDS), ("wordpiece", "masked")])
def test_a_saved_vocabulary_opens_in_transformers_with_the_same_ids(
    learn: Learn, lines: list[str], tmp_path: Path, kind: Kind, purpose: Purpose
) -> None:
    ours = learn(kind, purpose)
    ours.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert len(theirs) == ours.vocab_size
    for line in lines[::3]:
        ids = ours.encode(line).ids
        assert theirs(line)["input_ids"] == ids, line
        assert theirs.decode(ids, skip_special_tokens=True) == ours.decode(ids)
    assert theirs.pad_token_id == ours.pad_id


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_vocabulary_is_the_same_when_opened_again(
    learn: Learn, lines: list[str], tmp_path: Path, kind: Kind
) -> None:
    learn(kind).save(tmp_path)
    again = load(tmp_path)
    assert (again.special, again.vocab_size) == (learn(kind).special, learn(kind).vocab_size)
    assert again.encode_ids(lines) == learn(kind).encode_ids(lines)


# ---- what is refused


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["", ""]], ids=repr)
def test_no_text_is_refused(kind: Kind, texts: list[str]) -> None:
    with pytest.raises(UserError, match="no text to learn"):
        train(texts, TokenizerConfig(kind=kind), purpose="translation")


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "wordpiece"])
def test_a_vocabulary_smaller_than_the_alphabet_says_how_large_it_must_be(kind: Kind) -> None:
    texts = ["the quick brown fox jumps over the lazy dog"] * 3
    with pytest.raises(UserError, match="vocab_size 20 leaves") as caught:
        train(texts, TokenizerConfig(kind=kind, vocab_size=20, byte_fallback=False), purpose="translation")
    enough = int(caught.value.hint.split("at least ")[1].split(",")[0])
    for size in (enough - 1, enough - 2):
        with pytest.raises(UserError, match="leaves"):
            train(texts, TokenizerConfig(kind=kind, vocab_size=size, byte_fallback=False), purpose="translation")
    made = train(texts, TokenizerConfig(kind=kind, vocab_size=enough, byte_fallback=False), purpose="translation")
    assert made.vocab_size == enough


@pytest.mark.parametrize("size", [1, 2, 258, 259])
def test_room_for_special_tokens_and_bytes_alone_is_refused(size: int) -> None:
    with pytest.raises(UserError, match=f"vocab_size {size} leaves no id"):
        train(["a"], TokenizerConfig(vocab_size=size), purpose="translation")


@pytest.mark.parametrize("option", [{"vocab_size": 0}, {"min_frequency": 0}])
def test_settings_out_of_range_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(option))} is "):
        TokenizerConfig(**option)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_half_a_character_is_refused(kind: Kind) -> None:
    with pytest.raises(UserError, match="surrogates not allowed"):
        train(["fine", "\ud800"], TokenizerConfig(kind=kind), purpose="translation")


def test_the_reader_s_own_error_comes_through() -> None:
    def texts() -> Iterator[str]:
        yield "fine"
        raise UserError("line 2 is broken", "mend it")

    with pytest.raises(UserError, match="line 2 is broken") as caught:
        train(texts(), TokenizerConfig(), purpose="translation")
    assert caught.value.hint == "mend it"


def test_a_panic_of_the_library_is_the_user_s_error() -> None:
    class PanicException(BaseException):
        pass

    def texts() -> Iterator[str]:
        yield "fine"
        raise PanicException("called `Option::unwrap()` on a `None` value")

    with pytest.raises(UserError, match="the tokenizer library broke down"):
        train(texts(), TokenizerConfig(), purpose="translation")


def test_ctrl_c_stops_the_reading_at_once() -> None:
    script = (
        "import itertools, os, signal\nfrom regard.text.train import *\n"
        "def texts():\n"
        "    for number in itertools.count():\n"
        "        if number == 1000: os.kill(os.getpid(), signal.SIGINT)\n"
        "        yield 'a line without an end'\n"
        "try: train(texts(), TokenizerConfig(), purpose='causal')\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "stopped\n"
