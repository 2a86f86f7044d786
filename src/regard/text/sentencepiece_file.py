"""Reads a sentencepiece model file: a protobuf message with pieces, trainer and normaliser settings.

We need three fields of the message and a dozen numbers inside, so this reads the wire format itself
(protobuf.dev/programming-guides/encoding) instead of asking for the sentencepiece package. Files come
from strangers: every length is checked, and a cut or random file ends in UserError. Left out: the
word and char algorithms, whitespace as a suffix, the denormaliser. See docs/decisions/003-tokenizers.md.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from regard.errors import UserError
from regard.files import MAX_VOCABULARY, read_bytes


class Kind(IntEnum):
    """What a piece is for; only NORMAL and USER_DEFINED pieces are ever found in text."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    text: str
    score: float = 0.0
    kind: Kind = Kind.NORMAL


@dataclass
class SentencePieceModel:
    """Filled in as the file is read; the defaults are those of the format."""

    pieces: list[Piece] = field(default_factory=list)
    algorithm: int = 1
    "1 unigram, 2 byte pair encoding (3 word and 4 char are refused)."
    byte_fallback: bool = False
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = -1
    charsmap: bytes = b""
    "The normaliser's rules, compiled to a trie; the tokenizers library reads the same format."
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    name: str = field(default="the sentencepiece model", compare=False)
    "Of the file, for error messages."

    @property
    def unk_id(self) -> int:
        return next(index for index, piece in enumerate(self.pieces) if piece.kind is Kind.UNKNOWN)


def read_sentencepiece(path: Path) -> SentencePieceModel:
    return parse_sentencepiece(read_bytes(path, MAX_VOCABULARY), str(path))


def parse_sentencepiece(data: bytes, name: str = "the sentencepiece model") -> SentencePieceModel:
    model = SentencePieceModel(name=name)
    try:
        for number, value in _fields(data):
            if number == 1:
                model.pieces.append(_piece(_bytes(value)))
            elif number == 2:
                _trainer(model, _bytes(value))
            elif number == 3:
                _normalizer(model, _bytes(value))
        _check(model)
    except (ValueError, struct.error) as error:
        raise UserError(f"{name} is not a sentencepiece model we can read: {error}", "get it again") from error
    return model


def _piece(data: bytes) -> Piece:
    text, score, kind = "", 0.0, Kind.NORMAL
    for number, value in _fields(data):
        if number == 1:
            text = _bytes(value).decode("utf-8")
        elif number == 2:
            (score,) = struct.unpack("<f", _bytes(value))
        elif number == 3:
            kind = Kind(_int(value))
    if not text or not math.isfinite(score):
        raise ValueError(f"piece {text!r} with score {score}")
    return Piece(text, score, kind)


def _trainer(model: SentencePieceModel, data: bytes) -> None:
    for number, value in _fields(data):
        if number == 3:
            model.algorithm = _int(value)
        elif number == 24 and _int(value):
            raise ValueError("whitespace as a suffix is not supported")
        elif number == 35:
            model.byte_fallback = bool(_int(value))
        elif number in _IDS:
            setattr(model, _IDS[number], _int(value))


_IDS = {41: "bos_id", 42: "eos_id", 43: "pad_id"}


def _normalizer(model: SentencePieceModel, data: bytes) -> None:
    for number, value in _fields(data):
        if number == 2:
            model.charsmap = _bytes(value)
        elif number == 3:
            model.add_dummy_prefix = bool(_int(value))
        elif number == 4:
            model.remove_extra_whitespaces = bool(_int(value))
        elif number == 5 and not _int(value):
            raise ValueError("unescaped whitespace is not supported")


def _check(model: SentencePieceModel) -> None:
    if not model.pieces:
        raise ValueError("no pieces in it")
    if model.algorithm not in (1, 2):
        raise ValueError(f"algorithm {model.algorithm} (only 1, unigram, and 2, byte pairs, are supported)")
    if len({piece.text for piece in model.pieces}) < len(model.pieces):
        raise ValueError("the same piece appears twice")
    if sum(piece.kind is Kind.UNKNOWN for piece in model.pieces) != 1:
        raise ValueError("it must have exactly one unknown piece")
    for name in ("bos_id", "eos_id", "pad_id"):
        if getattr(model, name) >= len(model.pieces):
            raise ValueError(f"{name} {getattr(model, name)} of {len(model.pieces)} pieces")


# ---- the wire format: a message is a run of (field number, wire type, value)

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field of a message: an int for varints, bytes for everything else."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _LENGTH:
            size, at = _varint(data, at)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if size > end - at:
            raise ValueError(f"a field of {size} bytes where {end - at} are left")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, lowest first; the top bit says that more follow. At most ten bytes."""
    if at < len(data) and data[at] < 0x80:  # most are this short
        return data[at], at + 1
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number of more than ten bytes at byte {at}")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value


def _int(value: int | bytes) -> int:
    """Negative numbers are stored as 64-bit two's complement."""
    if isinstance(value, bytes):
        raise ValueError("bytes where a number belongs")
    return value - (1 << 64) if value >= 1 << 63 else value
