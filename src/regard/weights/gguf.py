"""GGUF files of the Llama family: llama.cpp's format, whose weights are usually quantised.

The header is read here, every length checked against the file before it is believed: the `gguf` package's reader
takes a hostile count at its word, and three seconds for an honest vocabulary. Its dequantiser does the numbers.
"""

import math
import mmap
import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quant_shape_to_byte_shape
from torch import Tensor

from regard.config import build, read_toml, require
from regard.errors import UserError, pick
from regard.models.gpt import Gpt, GptConfig
from regard.weights.fit import Held, assign, check, described_by
from regard.weights.keymap import Edit, KeyMap, Source, plain
from regard.weights.tensorfile import ALL, Entry

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY, _MAX_COUNT = 8, 9, 1_000_000
_PERMUTED = {"llama": True, "qwen2": False}
"By architecture: whether llama.cpp's converter permuted the rows of queries and keys."
_TABLES = read_toml(Path(__file__).with_suffix(".toml"))


@dataclass(frozen=True)
class Packed(Entry):
    """A quantised tensor: how its bytes are coded, their shape, and where they start."""

    kind: GGMLQuantizationType
    packed_shape: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class GgufFile:
    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Packed]

    def read(self, source: Source, rows: slice = ALL) -> Tensor:
        """One tensor, or some of its rows, dequantised to float32."""
        entry = self.tensors[source.theirs]
        raw = np.memmap(self.path, dtype=np.uint8, mode="r", offset=entry.start, shape=entry.packed_shape)[rows]
        if entry.kind == GGMLQuantizationType.F32:
            return torch.from_numpy(np.array(raw).view(np.float32))
        try:
            return torch.from_numpy(dequantize(np.asarray(raw), entry.kind))
        except NotImplementedError as error:
            raise UserError(f"{self.path}: {entry.name} is of kind {entry.kind.name}", "expected Q8_0") from error


class _Cursor:
    """Walks over the header and never past its end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.offset = path, data, 0

    def take(self, n_bytes: int) -> int:
        start, self.offset = self.offset, self.offset + n_bytes
        if self.offset > len(self.data):
            raise UserError(f"{self.path} ends in the middle of its header", "download it again")
        return start

    def scalar(self, code: str) -> Any:
        return struct.unpack_from(code, self.data, self.take(struct.calcsize(code)))[0]

    def count(self) -> int:
        number = self.scalar("<Q")
        if number > min(_MAX_COUNT, len(self.data)):
            raise UserError(f"{self.path} claims {number:,} entries where its size allows fewer", "it is damaged")
        return int(number)

    def text(self) -> str:
        length = self.count()
        start = self.take(length)
        return self.data[start : start + length].decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, length = self.scalar("<I"), self.count()
            if inner == _STRING:
                return [self.text() for _ in range(length)]
            code = self.code(inner)
            return list(struct.unpack_from(f"<{length}{code}", self.data, self.take(length * struct.calcsize(code))))
        return self.scalar(f"<{self.code(kind)}")

    def code(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise UserError(f"{self.path}: metadata of unknown kind {kind}", "it is damaged or newer than this reader")
        return _SCALARS[kind]


def read_gguf(path: Path) -> GgufFile:
    """Metadata and the places of all tensors."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(path, data)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} could not be read: {error}", "download it again") from error


def _read(path: Path, data: mmap.mmap) -> GgufFile:
    cursor = _Cursor(path, data)
    if data[cursor.take(4) : 4] != b"GGUF" or cursor.scalar("<I") not in (2, 3):
        raise UserError(f"{path} is not a GGUF file of version 2 or 3", "download it again, or a newer one")
    n_tensors, n_fields = cursor.count(), cursor.count()
    metadata: dict[str, Any] = {}
    for _ in range(n_fields):
        key = cursor.text()
        if key in metadata:
            raise UserError(f"{path}: the key {key[:80]!r} stands twice", "download it again")
        metadata[key] = cursor.value(cursor.scalar("<I"))
    places = [_place(cursor) for _ in range(n_tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 4096:
        raise UserError(f"{path}: general.alignment is {alignment!r}", "expected a number from 1 to 4096")
    base = -(-cursor.offset // alignment) * alignment
    tensors: dict[str, Packed] = {}
    for place in places:
        entry = replace(place, start=base + place.start)
        end = entry.start + math.prod(entry.packed_shape)
        if entry.name in tensors or end > len(data):
            what = "stands twice" if entry.name in tensors else f"ends at byte {end:,} of {len(data):,}"
            raise UserError(f"{path}: the tensor {entry.name} {what}", "download it again")
        tensors[entry.name] = entry
    return GgufFile(path, metadata, tensors)


def _place(cursor: _Cursor) -> Packed:
    name, n_axes = cursor.text(), cursor.scalar("<I")
    if not 1 <= n_axes <= 4:
        raise UserError(f"{cursor.path}: {name} has {n_axes} axes", "expected 1 to 4")
    shape = tuple(reversed([cursor.scalar("<Q") for _ in range(n_axes)]))  # stored fastest axis first
    try:
        kind = GGMLQuantizationType(cursor.scalar("<I"))
        packed_shape = quant_shape_to_byte_shape(shape, kind)
    except ValueError as error:
        raise UserError(f"{cursor.path}: {name}: {error}", "it is damaged or newer than this reader") from error
    return Packed(cursor.path, name, shape, "F32", kind, packed_shape, cursor.scalar("<Q"))


def read_config(file: GgufFile) -> GptConfig:
    name = str(file.metadata.get("general.architecture"))
    pick(name, _PERMUTED, "GGUF architecture")
    if "rope_freqs.weight" in file.tensors or f"{name}.rope.scaling.type" in file.metadata:
        raise UserError("the rotary positions are rescaled", "open the Hugging Face directory instead")
    tokens: Any = file.metadata.get("tokenizer.ggml.tokens")
    require(isinstance(tokens, list), "there is no list of tokens (tokenizer.ggml.tokens)", "download a whole model")
    keys = {ours: name + key if key.startswith(".") else key for ours, key in _TABLES["config"].items()}
    values = {ours: file.metadata[key] for ours, key in keys.items() if key in file.metadata}
    values |= _TABLES["fixed"] | {"layout": name, "vocab_size": len(tokens)}
    values["qkv_bias"] = "blk.0.attn_q.bias" in file.tensors
    values["tie"] = "output.weight" not in file.tensors
    end = file.metadata.get("tokenizer.ggml.eos_token_id")
    return build(GptConfig, {**values, "eos_ids": () if end is None else (end,)})


def interleaved(ours: str, n_heads: int) -> Edit:
    """Rows of each head stored as pairs (0, K/2, 1, K/2 + 1 ...): llama.cpp turns neighbours, we turn halves."""

    def split(tensor: Tensor) -> tuple[Tensor, ...]:
        pairs = tensor.unflatten(0, (n_heads, -1, 2))  # (H, K/2, 2, ...)
        return (pairs.transpose(1, 2).flatten(0, 2).contiguous(),)

    def join(tensors: list[Tensor]) -> Tensor:
        halves = tensors[0].unflatten(0, (n_heads, 2, -1))  # (H, 2, K/2, ...)
        return halves.transpose(1, 2).flatten(0, 2).contiguous()

    return Edit((ours,), split, join)


def tensor_table(config: GptConfig) -> dict[str, Edit]:
    table = {theirs: plain(ours) for theirs, ours in _TABLES["tensors"].items()}
    if _PERMUTED[config.layout]:
        heads = {"q": config.n_heads, "k": config.n_kv_heads or config.n_heads}
        table |= {f"blk.{{}}.attn_{x}": interleaved(f"decoder.blocks.{{}}.attn.{x}", n) for x, n in heads.items()}
    return table


def load_gguf(path: Path, held: Held | None, *, empty: bool = False) -> Gpt:
    file = read_gguf(path)
    with described_by(path):
        model = Gpt(read_config(file))
    sources = KeyMap(tensor_table(model.config)).sources(model.state_dict())
    check(path, model, sources, file.tensors, spare=re.compile("$"))
    if not empty:
        assign(model, sources, file.read, held)
    return model
