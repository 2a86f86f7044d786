"""Pieces of text, joined, are the whole text; each is shown as soon as it is sure, and at a bounded cost."""

from functools import cache
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import decoders

from regard.text.piecewise import KEPT, Piecewise
from regard.text.tokenizer import Tokenizer
from regard.text.train import Kind, TokenizerConfig, train
from tasks.translators import tokenizer as metaspace

TEXTS = ["Olá, o livro não está em cima da mesa.", "It's the cat's, isn't it? do not ...", "a  b   c", "ﬁ €"] * 3
KINDS = [*get_args(Kind), "metaspace", "marian", "suffix", "joined"]


@cache
def vocabulary(kind: str) -> Tokenizer:
    if kind == "metaspace":
        return metaspace()
    if kind == "marian":  # pieces numbered by another vocabulary
        names = [*map(metaspace().token_of, range(metaspace().vocab_size))]
        return Tokenizer(metaspace()._core, special={}, id_map={name: id for id, name in enumerate(reversed(names))})
    plain = train(TEXTS, TokenizerConfig(kind if kind in get_args(Kind) else "bpe", 500), purpose="causal")
    if kind in ("suffix", "joined"):  # á ends every token that it is in, as a suffix does
        plain._core.decoder = decoders.BPEDecoder(suffix="á") if kind == "suffix" else None
    return plain


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    stream = Piecewise(tokenizer)
    return [*map(stream.add, ids), stream.end()]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_ids_joined_are_decoded_as_a_whole(kind: str, data: st.DataObject) -> None:
    """Bytes that are no text, special tokens and ids without a token among them."""
    tokenizer = vocabulary(kind)
    rare = st.integers(0, min(270, tokenizer.vocab_size + 3))  # special tokens and bytes
    ids = data.draw(st.lists(st.one_of(rare, st.integers(0, tokenizer.vocab_size + 3)), max_size=80))
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(max_size=60))
@example("👩‍👩‍👧‍👦 naïve 汉字 \ufffd\ufffd end")
@example("a " * 60)
@example("\ufffd" * 60)
def test_any_text_comes_back_as_from_decode(kind: str, text: str) -> None:
    tokenizer = vocabulary(kind)
    ids = tokenizer.encode(text).ids
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "metaspace", "wordpiece"])
def test_a_word_is_shown_with_its_token(kind: str) -> None:
    tokenizer = vocabulary(kind)
    ids = tokenizer.encode("o livro da mesa", special=False).ids
    stream = Piecewise(tokenizer)
    for n, id in enumerate(ids, start=1):
        assert stream.add(id) == tokenizer.decode(ids[:n])[len(tokenizer.decode(ids[: n - 1])) :]
    assert stream.end() == ""


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe"])
def test_half_a_character_waits_for_its_other_bytes(kind: str) -> None:
    tokenizer = vocabulary(kind)
    shown = pieces(tokenizer, tokenizer.encode("a😀b", special=False).ids)
    assert len(shown) > 4
    assert not any("\ufffd" in piece for piece in shown)


def test_bytes_that_prove_no_text_take_the_text_of_their_run_back() -> None:
    """As the library decodes them: so none of a run may be shown before its end."""
    tokenizer = vocabulary("bpe")
    euro = [id for byte in "€".encode() if (id := tokenizer.id_of(f"<0x{byte:02X}>")) is not None]
    assert tokenizer.decode(euro) == "€"
    assert pieces(tokenizer, [*euro, euro[0]]) == ["", "", "", "", "\ufffd" * 4]


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece"])
@pytest.mark.parametrize("text", ["word ", "😀 ", "汉 ", "<|endoftext|>", "\xff "])
def test_the_work_of_a_token_does_not_grow_with_the_text(kind: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in ids that are decoded, the same ones again and again; special and unknown tokens among them."""
    tokenizer, work = vocabulary(kind), 0
    plain = tokenizer.decode

    def counted(ids: list[int]) -> str:
        nonlocal work
        work += len(ids)
        return plain(ids)

    ids = tokenizer.encode(text * 400, special=False).ids
    monkeypatch.setattr(tokenizer, "decode", counted)
    pieces(tokenizer, ids)
    assert len(ids) >= 400
    assert work < 4 * KEPT * len(ids)


def test_bytes_that_never_become_a_character_are_shown_at_a_bounded_cost_too() -> None:
    """All but the last are sure."""
    tokenizer = vocabulary("byte-bpe")
    half = tokenizer.id_of("Ã")
    assert half is not None
    stream = Piecewise(tokenizer)
    shown = [stream.add(half) for _ in range(1000)]
    assert set(shown[1:]) == {"\ufffd"}
    assert "".join([*shown, stream.end()]) == "\ufffd" * 1000
    assert len(stream._ids) < 2 * KEPT
