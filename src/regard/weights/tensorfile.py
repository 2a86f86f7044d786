"""safetensors files, opened with suspicion and written so that a crash leaves the old file whole.

Sizes, names and shapes are checked from the header before anything is allocated; the data is memory-mapped.
"""

import os
import re
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import UserError
from regard.files import flush, parse_json, read_json_object, write_json
from regard.weights.keymap import Source

MAX_HEADER_BYTES, MAX_TENSORS = 16 * 2**20, 50_000
"A hundred times what the largest model of our families needs."
SINGLE, INDEX, _NAME = "model.safetensors", "model.safetensors.index.json", "model-{:05d}-of-{:05d}.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
ALL = slice(None)
Read = Callable[..., Tensor]
"Of a source the tensor, or a slice of its rows."
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@dataclass(frozen=True)
class Entry:
    """Where a tensor is and how large it is, read from the header alone."""

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: str


def read_headers(directory: Path) -> dict[str, Entry]:
    """All tensors of a model directory: of its one file, or of the shards that the index names."""
    index, table = directory / INDEX, None
    if (directory / SINGLE).exists():
        files = [directory / SINGLE]
    elif index.exists():
        table = read_index(index)
        files = [directory / name for name in sorted(set(table.values()))]
    elif any(path.suffix in PICKLES for path in directory.iterdir()):
        raise refuse_pickle(directory)
    else:
        raise UserError(f"{directory} has no {SINGLE}", f"expected {SINGLE} or {INDEX} beside config.json")
    entries = {name: entry for file in files for name, entry in read_header(file).items()}
    held = {name: entry.file.name for name, entry in entries.items()}
    if table is not None and held != table:
        wrong = sorted(name for name in held.keys() | table.keys() if held.get(name) != table.get(name))
        found = f"{wrong[0]} is listed in {table.get(wrong[0])} and found in {held.get(wrong[0])}"
        raise UserError(f"{index} and the shards differ in {len(wrong)} tensors: {found}", "download all of them again")
    return entries


def refuse_pickle(source: Path) -> UserError:
    return UserError(
        f"{source} has its weights in a pickle only, and opening one can run code that is hidden in it",
        f"if you trust where it comes from: regard convert {source} NEW_DIRECTORY --allow-pickle",
    )


def read_index(path: Path) -> dict[str, str]:
    """Which shard holds which tensor. Shards stand beside the index, or in the hub's store where that links to."""
    table = read_json_object(path).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise UserError(f"{path}: weight_map is not a table of file names", "expected tensor names and their files")
    suffix, inside = Path(path.name.removesuffix(".index.json")).suffix, path.parent.resolve()
    shards = sorted(set(table.values()))
    for name in shards:
        if not re.fullmatch(r"\w[\w.-]{0,200}", name) or not name.endswith(suffix):
            raise UserError(f"{path} names the shard {name[:80]!r}", f"expected a {suffix} file beside the index")
    missing = [name for name in shards if not (path.parent / name).is_file()]
    if missing:
        raise UserError(f"{path}: {len(missing)} shards are missing: {', '.join(missing[:5])}", "download them")
    for name in shards:
        target = (path.parent / name).resolve()
        if target.parent not in (inside, inside.parent.parent / "blobs"):
            raise UserError(f"{path}: the shard {name} is a link to {target}", "put the file itself beside the index")
    return table


def read_header(path: Path) -> dict[str, Entry]:
    """Names and shapes, or an error; nothing else is read."""
    try:
        if not path.is_file():  # a pipe would never end
            raise ValueError("it is not a file")
        size = path.stat().st_size
        with path.open("rb") as file:
            raw = file.read(8)
            length = struct.unpack("<Q", raw)[0] if len(raw) == 8 else 0
            if not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
                raise ValueError(f"{size:,} bytes, header said to be {length:,}")
            header = parse_json(file.read(length).decode(), str(path))  # unlike safetensors, no name twice
        with safe_open(path, "pt"):  # the library's own checks: offsets, overlaps, holes, lengths
            pass
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is not a whole safetensors file: {error}", "download or save it again") from error
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise UserError(f"{path} holds {len(header):,} tensors", f"at most {MAX_TENSORS:,} are accepted")
    return {name: Entry(path, name, tuple(fields["shape"]), fields["dtype"]) for name, fields in header.items()}


def reader(entries: Mapping[str, Entry], held: object) -> Read:
    """Reads one tensor at a time, memory-mapped: its pages are read when they are used."""
    opened: dict[Path, Any] = {}

    def read(source: Source, rows: slice = ALL) -> Tensor:
        entry = entries[source.theirs]
        if source.edit.is_plain and held in (None, FLOATS[entry.dtype]):
            if entry.file not in opened:
                opened[entry.file] = safe_open(entry.file, "pt")
            return opened[entry.file].get_tensor(entry.name)
        tensor = read_one(entry, rows)  # it is about to be copied
        return tensor if tensor.dim() > 1 else tensor.clone()

    return read


def read_one(entry: Entry, rows: slice = ALL) -> Tensor:
    """With a mapping of its own, whose pages are given back when the tensor is."""
    with safe_open(entry.file, "pt") as file:
        return file.get_tensor(entry.name) if rows == ALL else file.get_slice(entry.name)[rows]


def write_tensors(directory: Path, tensors: Mapping[str, Tensor], shard_bytes: int) -> None:
    """One file, or shards and their index. All are written apart and then renamed: a crash leaves the old ones."""
    shards = _split(tensors, shard_bytes)
    names = [SINGLE] if len(shards) == 1 else [_NAME.format(n, len(shards)) for n in range(1, len(shards) + 1)]
    folder = directory / f".weights.tmp-{os.getpid()}"
    try:
        for leftover in directory.glob(".weights.tmp-*"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, shard in zip(names, shards, strict=True):
            _write_file(folder / name, shard)
        if len(shards) > 1:
            total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
            table = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
            write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": table})
        _publish(folder, directory)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{directory} could not be written: {error}", "the old files, if any, are untouched") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _split(tensors: Mapping[str, Tensor], shard_bytes: int) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    room = shard_bytes
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if size > room and shards[-1]:
            shards.append({})
            room = shard_bytes
        shards[-1][name] = tensor
        room -= size
    return shards


def _write_file(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"})
    path.chmod(path.parent.stat().st_mode & 0o666)  # safetensors creates its files for the owner alone
    flush(path)


def _publish(folder: Path, directory: Path) -> None:
    """Give finished files their names, the index last, and remove what they replace."""
    names = sorted(path.name for path in folder.iterdir())
    for name in names:
        (folder / name).replace(directory / name)
    for old in (directory / SINGLE, directory / INDEX, *directory.glob(_NAME.replace("{:05d}", "?" * 5))):
        if old.name not in names:
            old.unlink(missing_ok=True)
    flush(directory)
