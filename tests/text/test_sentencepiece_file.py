"""The wire format, read as sentencepiece reads it; and C11, bytes that are no model."""

import contextlib
import struct
import time
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.sentencepiece_core import core_of
from regard.text.sentencepiece_file import Kind, SentencePieceModel, parse_sentencepiece, read_sentencepiece
from regard.text.tokenizer import Tokenizer

MODELS = ["t5_spiece.model", "albert_spiece.model", "marian_pten_32k.spm", "opus_mt_zh_source.model"]


# A writer of the same format, to make models that no trainer would.


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def piece(text: str | bytes, score: float = -1.0, kind: int = 1) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return block(1, block(1, data) + varint(2 << 3 | 5) + struct.pack("<f", score) + number(3, kind))


UNKNOWN = piece("<unk>", 0.0, 2)
ONE = UNKNOWN + piece("▁a")


# ---- as sentencepiece reads it


@pytest.mark.parity
@pytest.mark.parametrize("name", MODELS)
def test_pieces_scores_and_kinds_equal_sentencepiece(pieces_dir: Path, name: str) -> None:
    ours = read_sentencepiece(pieces_dir / name)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(pieces_dir / name))
    assert len(ours.pieces) == theirs.get_piece_size()
    for id, found in enumerate(ours.pieces):
        assert (found.text, found.score) == (theirs.id_to_piece(id), theirs.get_score(id))
        assert (found.kind is Kind.CONTROL) == theirs.is_control(id)
    ids = (theirs.unk_id(), theirs.bos_id(), theirs.eos_id(), theirs.pad_id())
    assert (ours.unk_id, ours.bos_id, ours.eos_id, ours.pad_id) == ids


@pytest.mark.parity
@pytest.mark.parametrize("name", MODELS[::3])
def test_normalised_text_equals_sentencepiece(pieces_dir: Path, name: str, lines: list[str]) -> None:
    normalizer = core_of(read_sentencepiece(pieces_dir / name)).normalizer
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(pieces_dir / name))
    for line in lines:
        assert normalizer.normalize_str(line) == theirs.normalize(line), line


def test_settings_left_out_have_the_defaults_of_the_format() -> None:
    assert parse_sentencepiece(ONE + piece("b")) == SentencePieceModel(
        pieces=parse_sentencepiece(ONE + piece("b")).pieces
    )


def test_every_setting_is_read() -> None:
    trainer = number(3, 2) + number(35, 1) + number(41, -1) + number(42, 1) + number(43, 0)
    normalizer = block(2, b"rules") + number(3, 0) + number(4, 0) + number(5, 1)
    model = parse_sentencepiece(ONE + block(2, trainer) + block(3, normalizer) + block(99, b"unheard of"))
    assert (model.algorithm, model.byte_fallback, model.bos_id, model.eos_id, model.pad_id) == (2, True, -1, 1, 0)
    assert (model.charsmap, model.add_dummy_prefix, model.remove_extra_whitespaces) == (b"rules", False, False)


# ---- C11


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "no pieces"),
        (b"a text file\n", "wire type|left|ends|bytes|number"),
        (ONE[:-3], "left"),
        (ONE + b"\xff" * 11, "more than ten bytes"),
        (ONE + b"\x80", "ends inside"),
        (ONE + b"\x0b", "wire type 3"),
        (ONE + b"\x12\xff\xff\xff\xff\x0f", "left"),
        (piece("a"), "exactly one unknown"),
        (UNKNOWN + piece("<x>", 0.0, 2), "exactly one unknown"),
        (ONE + piece("▁a"), "twice"),
        (ONE + piece(""), "piece ''"),
        (ONE + piece(b"\xff"), "utf-8"),
        (ONE + piece("b", float("nan")), "nan"),
        (ONE + piece("b", float("inf")), "inf"),
        (ONE + piece("b", kind=9), "9"),
        (ONE + block(1, number(1, 5)), "a number where bytes belong"),
        (ONE + block(1, block(1, b"b") + block(2, b"too long")), "4 bytes"),
        (ONE + block(2, number(3, 3)), "algorithm 3"),
        (ONE + block(2, number(24, 1)), "suffix"),
        (ONE + block(2, number(42, 7)), "eos_id 7"),
        (ONE + block(3, number(5, 0)), "whitespace"),
        (ONE + block(3, block(3, b"x")), "bytes where a number belongs"),
    ],
)
def test_c11_wrong_models_are_refused_with_the_reason(data: bytes, match: str) -> None:
    with pytest.raises(UserError, match=match):
        parse_sentencepiece(data)


def chain(longest: int, letters: int) -> bytes:
    """x, xx, xxx ... of many letters: as many merges as there can be."""
    runs = (chr(0x4E00 + letter) * length for letter in range(letters) for length in range(1, longest + 1))
    return UNKNOWN + b"".join(map(piece, runs)) + block(2, number(3, 2))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (ONE + piece("a" * 100_000) + block(2, number(3, 2)), r"bomb.model has a piece of 100,000 .*: 'aaa"),
        (chain(800, 1), r"bomb.model has a piece of 800 characters: '一一一"),
        (chain(256, 20), r"bomb.model has 5,120 pieces, too long in all"),
    ],
    ids=["one", "many", "wide"],
)
def test_a_vocabulary_with_endless_merges_is_refused_before_they_are_looked_for(data: bytes, match: str) -> None:
    model, begun = parse_sentencepiece(data, "bomb.model"), time.process_time()
    with pytest.raises(UserError, match=match):
        core_of(model)
    assert time.process_time() - begun < 0.5


def test_the_most_merges_that_pass_are_found_soon() -> None:
    begun = time.process_time()
    core_of(parse_sentencepiece(chain(256, 7)))
    assert time.process_time() - begun < 5


@given(data=st.binary())
def test_c11_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(UserError):
        parse_sentencepiece(data)


def test_c11_a_file_cut_anywhere_is_refused_or_smaller(pieces_dir: Path) -> None:
    data = (pieces_dir / "t5_spiece.model").read_bytes()
    whole = parse_sentencepiece(data)
    for cut in range(1, len(data), len(data) // 3):
        with contextlib.suppress(UserError):
            assert len(parse_sentencepiece(data[:cut]).pieces) <= len(whole.pieces)


@settings(max_examples=60)
@given(data=st.data())
def test_c11_damaged_rules_are_refused_or_harmless(small: SentencePieceModel, data: st.DataObject) -> None:
    rules = bytearray(small.charsmap)
    for _ in range(data.draw(st.integers(1, 20))):
        rules[data.draw(st.integers(0, len(rules) - 1))] = data.draw(st.integers(0, 255))
    rules = rules[: data.draw(st.integers(len(rules) // 2, len(rules)))]
    damaged = SentencePieceModel(small.pieces, charsmap=bytes(rules))
    with contextlib.suppress(UserError):
        Tokenizer(core_of(damaged), special={}).encode("ﬁ １２３ ½ ㍿ e\u0301 \u0344")


@pytest.fixture(scope="module")
def small(pieces_dir: Path) -> SentencePieceModel:
    whole = read_sentencepiece(pieces_dir / "t5_spiece.model")
    return SentencePieceModel(whole.pieces[:200], charsmap=whole.charsmap)
