"""GGUF files, honest and hostile, written byte by byte."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import quantize

from regard.models.gpt import Gpt, GptConfig
from regard.weights.gguf import tensor_table
from regard.weights.keymap import KeyMap
from regard.weights.store import export

U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10
_CODES = {U8: "<B", U32: "<I", F32: "<f", BOOL: "<?", U64: "<Q"}


class Value(NamedTuple):
    kind: int
    value: Any
    inner: int = STRING
    "What an array holds."


class Place(NamedTuple):
    """A tensor's line in the header: axes in the file's order, fastest first."""

    name: str
    axes: tuple[int, ...]
    kind: int
    offset: int


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def packed(kind: int, value: Any, inner: int = STRING) -> bytes:
    if kind == STRING:
        return text(value)
    if kind == ARRAY:
        return struct.pack("<IQ", inner, len(value)) + b"".join(packed(inner, item) for item in value)
    return struct.pack(_CODES[kind], value)


def header(
    metadata: Mapping[str, Value], places: list[Place], *, n_tensors: int | None = None, n_fields: int | None = None
) -> bytes:
    counts = (len(places) if n_tensors is None else n_tensors, len(metadata) if n_fields is None else n_fields)
    parts = [b"GGUF", struct.pack("<IQQ", 3, *counts)]
    for key, (kind, value, inner) in metadata.items():
        parts += [text(key), struct.pack("<I", kind), packed(kind, value, inner)]
    for name, axes, kind, offset in places:
        parts += [text(name), struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, kind, offset)]
    return b"".join(parts)


def aligned(raw: bytes, alignment: int = 32) -> bytes:
    return raw + b"\0" * (-len(raw) % alignment)


def byte_letters() -> list[str]:
    """The 256 letters that byte-level vocabularies are made of."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in plain)
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


TOKENS = [*byte_letters(), "ab", "<end>"]
LLAMA = GptConfig(
    layout="llama", vocab_size=len(TOKENS), bos_id=257, eos_ids=(257,), d_model=32, n_heads=4, n_kv_heads=2, d_ff=64,
    n_layers=2, max_len=16, norm="rms", norm_eps=1e-5, position="rotary", activation="silu", gated=True,
    qkv_bias=False, out_bias=False, ffn_bias=False, tie=False,
)  # fmt: skip


def metadata_of(config: GptConfig = LLAMA) -> dict[str, Value]:
    return {
        "general.architecture": Value(STRING, "llama"),
        "llama.block_count": Value(U32, config.n_layers),
        "llama.context_length": Value(U32, config.max_len),
        "llama.embedding_length": Value(U32, config.d_model),
        "llama.feed_forward_length": Value(U32, config.d_ff),
        "llama.attention.head_count": Value(U32, config.n_heads),
        "llama.attention.head_count_kv": Value(U32, config.n_kv_heads),
        "llama.attention.layer_norm_rms_epsilon": Value(F32, config.norm_eps),
        "llama.rope.freq_base": Value(F32, config.rope_theta),
        "tokenizer.ggml.model": Value(STRING, "gpt2"),
        "tokenizer.ggml.pre": Value(STRING, "smollm"),
        "tokenizer.ggml.tokens": Value(ARRAY, TOKENS),
        "tokenizer.ggml.token_type": Value(ARRAY, [1] * 257 + [3], U32),
        "tokenizer.ggml.merges": Value(ARRAY, ["a b"]),
        "tokenizer.ggml.bos_token_id": Value(U32, 257),
        "tokenizer.ggml.eos_token_id": Value(U32, 257),
    }


def tensors_of(model: Gpt) -> dict[str, torch.Tensor]:
    return export(KeyMap(tensor_table(model.config)), model.state_dict(), bare=False)


def write_llama(path: Path, kind: Kind = Kind.F32, config: GptConfig = LLAMA) -> Gpt:
    """A whole file; matrices are coded as `kind`, vectors always as float32. The model itself is returned."""
    torch.manual_seed(0)
    model = Gpt(config)
    places, data = [], b""
    for name, tensor in tensors_of(model).items():
        own = kind if tensor.dim() > 1 else Kind.F32
        places.append(Place(name, tuple(reversed(tensor.shape)), own, len(data)))
        data = aligned(data + quantize(tensor.detach().numpy().astype(np.float32), own).tobytes())
    path.write_bytes(aligned(header(metadata_of(config), places)) + data)
    return model
