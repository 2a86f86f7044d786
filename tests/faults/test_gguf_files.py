"""Damaged and hostile GGUF files are refused: every length is compared with the file before it is believed."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Kind

from faults.refusal import measured, refused
from regard.text.gguf_vocabulary import from_metadata
from regard.weights.gguf import read_gguf
from regard.weights.store import load_model
from weights import gguf_files
from weights.gguf_files import ARRAY, BOOL, F32, STRING, U8, U32, U64, Place, Value, aligned, header, metadata_of

MIB = 2**20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    gguf_files.write_llama(tmp_path / "model.gguf")
    return tmp_path / "model.gguf"


def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    header_ends = min(entry.start for entry in read_gguf(path).tensors.values())
    for size in {0, 1, 3, 4, 7, 8, 15, 16, 23, 24, *range(25, header_ends, 41), header_ends, len(whole) - 33}:
        path.write_bytes(whole[:size])
        with refused(path):
            load_model(path)


@pytest.mark.parametrize("start", [b"GGML", b"gguf", b"PK\3\4", b"\0\0\0\0"])
def test_another_kind_of_file_is_refused(path: Path, start: bytes) -> None:
    path.write_bytes(start + path.read_bytes()[4:])
    with refused(path, "not a GGUF file"):
        load_model(path)


@pytest.mark.parametrize("version", [0, 1, 4, 2**31, 3 << 24])
def test_another_version_is_refused(path: Path, version: int) -> None:
    path.write_bytes(b"GGUF" + struct.pack("<I", version) + path.read_bytes()[8:])
    with refused(path, "version 2 or 3"):
        load_model(path)


@pytest.mark.parametrize("count", [10**6, 2**31, 2**63, 2**64 - 1])
@pytest.mark.parametrize("which", ["n_tensors", "n_fields"])
def test_a_count_that_the_file_cannot_hold_is_refused(path: Path, which: str, count: int) -> None:
    path.write_bytes(aligned(header(metadata_of(), [], **{which: count})))
    with refused(path):
        load_model(path)


def broken_text(length: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", length) + b"x" * 100


def broken_array(inner: int, length: int) -> bytes:
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_files.text("key")
    return start + struct.pack("<IIQ", ARRAY, inner, length) + b"\0" * 100


@pytest.mark.parametrize("length", [101, 10**6, 2**40, 2**63, 2**64 - 1])
def test_a_text_longer_than_the_file_is_refused(path: Path, length: int) -> None:
    path.write_bytes(broken_text(length))
    with refused(path):
        load_model(path)


@pytest.mark.parametrize("length", [101, 10**6, 2**40, 2**64 - 1])
@pytest.mark.parametrize("inner", [U8, U64, STRING])
def test_an_array_longer_than_the_file_is_refused(path: Path, inner: int, length: int) -> None:
    path.write_bytes(broken_array(inner, length))
    with refused(path):
        load_model(path)


@pytest.mark.parametrize("depth", [2, 1000])
def test_nested_arrays_are_refused(path: Path, depth: int) -> None:
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_files.text("key") + struct.pack("<I", ARRAY)
    path.write_bytes(start + struct.pack("<IQ", ARRAY, 1) * depth + struct.pack("<IQ", U8, 0))
    with refused(path, "kind 9"):
        load_model(path)


@pytest.mark.parametrize("kind", [13, 255, 2**32 - 1])
def test_metadata_of_an_unknown_kind_are_refused(path: Path, kind: int) -> None:
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_files.text("key")
    path.write_bytes(start + struct.pack("<I", kind) + b"\0" * 100)
    with refused(path, f"kind {kind}", "newer"):
        load_model(path)


def test_a_key_that_stands_twice_is_refused(path: Path) -> None:
    field = gguf_files.text("key") + struct.pack("<II", U32, 5)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + field + field)
    with refused(path, "'key' stands twice"):
        load_model(path)


def test_names_that_are_no_text_do_no_harm(path: Path) -> None:
    field = gguf_files.text(b"\xff\xfe\0") + struct.pack("<I", STRING) + gguf_files.text(b"\xc3(")
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field)
    with refused(path, "architecture"):
        load_model(path)


# Tensors


def with_tensor(place: Place, n_bytes: int = 4096) -> bytes:
    return aligned(header(metadata_of(), [place])) + b"\0" * n_bytes


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        (Place("a", (32,), Kind.F32, 4096 - 64), ["a ends at byte"]),
        (Place("a", (2**40,), Kind.F32, 0), ["a ends at byte"]),
        (Place("a", (2**63, 2**63, 2**63, 2**63), Kind.F32, 0), ["a ends at byte"]),
        (Place("a", (1,), Kind.F32, 2**64 - 1), ["a ends at byte"]),
        (Place("a", (), Kind.F32, 0), ["a has 0 axes"]),
        (Place("a", (1, 1, 1, 1, 1), Kind.F32, 0), ["a has 5 axes"]),
        (Place("a", (33,), Kind.Q8_0, 0), ["a", "33", "multiple"]),
        (Place("a", (32,), 999, 0), ["a", "999"]),
        (Place("a", (32,), 4, 0), ["a", "4"]),  # a kind that was withdrawn
        (Place("a", (0,), Kind.F32, 0), ["do not fit"]),
        (Place("a" * 5000, (32,), Kind.F32, 0), []),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_tensor_that_cannot_be_is_refused_by_name(path: Path, place: Place, parts: list[str]) -> None:
    path.write_bytes(with_tensor(place))
    with refused(path, *parts):
        load_model(path)


def test_a_tensor_with_an_absurd_number_of_axes_is_refused(path: Path) -> None:
    raw = header(metadata_of(), [], n_tensors=1) + gguf_files.text("a") + struct.pack("<I", 2**32 - 1)
    path.write_bytes(raw + b"\0" * 1000)
    with refused(path, "a has 4294967295 axes", "1 to 4"):
        load_model(path)


def test_a_tensor_that_stands_twice_is_refused(path: Path) -> None:
    path.write_bytes(aligned(header(metadata_of(), [Place("a", (8,), Kind.F32, 0)] * 2)) + b"\0" * 64)
    with refused(path, "a stands twice"):
        load_model(path)


def rewritten(path: Path, change: Callable[[Place], Place]) -> None:
    """The same file with other lines in its header."""
    file, raw = read_gguf(path), path.read_bytes()
    base = min(entry.start for entry in file.tensors.values())
    places = [
        change(Place(entry.name, tuple(reversed(entry.shape)), entry.kind, entry.start - base))
        for entry in file.tensors.values()
    ]
    path.write_bytes(aligned(header(metadata_of(), places)) + raw[base:])


@pytest.mark.parametrize("kind", [Kind.I8, Kind.I16, Kind.I32, Kind.I64, Kind.F64, Kind.Q8_1, Kind.Q8_K])
def test_a_coding_that_is_not_for_weights_is_refused(path: Path, kind: Kind) -> None:
    def change(place: Place) -> Place:
        axes = (32, 256) if kind in (Kind.Q8_1, Kind.Q8_K) else place.axes
        return place._replace(kind=kind, offset=0, axes=axes) if place.name == "output_norm.weight" else place

    rewritten(path, change)
    with refused(path, "output_norm.weight"):
        load_model(path)


def test_a_tensor_of_no_bytes_and_any_shape_is_compared_with_the_model(path: Path) -> None:
    rewritten(path, lambda place: place._replace(axes=(0, 2**40)) if place.name == "token_embd.weight" else place)
    with refused(path, "token_embd.weight has shape [1099511627776, 0], expected [258, 32]"):
        load_model(path)


@pytest.mark.parametrize("value", [Value(U32, 0), Value(U32, 2**31), Value(F32, 32.0), Value(STRING, "32")])
def test_an_alignment_that_is_none_is_refused(path: Path, value: Value) -> None:
    path.write_bytes(header(metadata_of() | {"general.alignment": value}, []) + b"\0" * 100)
    with refused(path, "general.alignment", "1 to 4096"):
        load_model(path)


# What the metadata say about the model


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("general.architecture", Value(STRING, "mamba"), ["GGUF architecture 'mamba'"]),
        ("general.architecture", Value(U32, 7), ["GGUF architecture '7'"]),
        ("general.architecture", Value(ARRAY, ["llama"]), ["GGUF architecture"]),
        ("llama.block_count", Value(U32, 2**31), ["n_layers is 2147483648"]),
        ("llama.block_count", Value(STRING, "2"), ["n_layers"]),
        ("llama.block_count", Value(U32, 3), ["blk.2.attn_q.weight is missing"]),
        ("llama.block_count", Value(U32, 1), ["blk.1.attn_q.weight is not part of the model"]),
        ("llama.embedding_length", Value(U32, 0), ["d_model is 0"]),
        ("llama.embedding_length", Value(U32, 2**20), ["token_embd.weight has shape [258, 32]"]),
        ("llama.embedding_length", Value(F32, 32.5), ["d_model"]),
        ("llama.attention.head_count", Value(U32, 5), ["n_heads 5"]),
        ("llama.attention.head_count", Value(ARRAY, [4, 4], U32), ["n_heads"]),
        ("llama.attention.head_count_kv", Value(U32, 3), ["n_kv_heads 3"]),
        ("llama.attention.layer_norm_rms_epsilon", Value(F32, 0.0), ["norm_eps"]),
        ("llama.attention.layer_norm_rms_epsilon", Value(F32, float("nan")), ["norm_eps"]),
        ("llama.rope.freq_base", Value(F32, 0.0), ["rope_theta"]),
        ("llama.rope.freq_base", Value(F32, float("inf")), ["rope_theta"]),
        ("llama.rope.scaling.type", Value(STRING, "yarn"), ["rotary positions are rescaled"]),
        ("tokenizer.ggml.tokens", Value(U32, 5), ["tokenizer.ggml.tokens"]),
        ("tokenizer.ggml.tokens", Value(ARRAY, ["a"]), ["token_embd.weight has shape [258, 32], expected [1, 32]"]),
        ("tokenizer.ggml.tokens", Value(ARRAY, []), ["vocab_size is 0"]),
        ("tokenizer.ggml.eos_token_id", Value(STRING, "x"), ["eos_ids"]),
        ("tokenizer.ggml.bos_token_id", Value(BOOL, True), ["bos_id"]),
    ],
    ids=str,
)  # fmt: skip
def test_metadata_that_do_not_fit_are_refused(path: Path, key: str, value: Value, parts: list[str]) -> None:
    file, raw = read_gguf(path), path.read_bytes()
    base = min(entry.start for entry in file.tensors.values())
    places = [
        Place(entry.name, tuple(reversed(entry.shape)), entry.kind, entry.start - base)
        for entry in file.tensors.values()
    ]
    path.write_bytes(aligned(header(metadata_of() | {key: value}, places)) + raw[base:])
    with refused(path, *parts):
        load_model(path)


@pytest.mark.parametrize("key", ["tokenizer.ggml.tokens", "general.architecture"])
def test_metadata_that_are_missing_are_named(path: Path, key: str) -> None:
    metadata = metadata_of()
    del metadata[key]
    path.write_bytes(aligned(header(metadata, [])))
    with refused(path, "tokenizer.ggml.tokens" if "tokens" in key else "architecture"):
        load_model(path)


def test_large_arrays_take_no_more_than_their_share_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    metadata = {f"key.{i}": Value(ARRAY, [0] * 300_000, U64) for i in range(3)}
    path.write_bytes(header(metadata, []))
    message, grown = measured("regard.load_model(sys.argv[1])", path)
    assert "architecture" in message
    assert grown < 40 * path.stat().st_size + 150 * MIB  # the package gguf itself is imported too


def test_the_vocabulary_of_a_whole_file_can_be_used(path: Path) -> None:
    tokenizer = from_metadata(read_gguf(path).metadata)
    assert tokenizer.encode("ab").ids[-1] == 256
