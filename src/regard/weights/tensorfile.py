"""safetensors files, opened with suspicion and written so that a crash leaves the old file whole.

Sizes, names and shapes are checked from the header before anything is allocated; the data is memory-mapped.
"""

import json
import os
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.config import read_json
from regard.errors import UserError

MAX_HEADER_BYTES = 32 * 2**20
MAX_TENSORS = 200_000
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_DTYPES = {"F64", "F32", "F16", "BF16"}


@dataclass(frozen=True)
class Entry:
    """Where a tensor is and how large it is, read from the header alone."""

    file: Path
    name: str
    shape: tuple[int, ...]


def find_files(directory: Path) -> list[Path]:
    """The weight files of a model directory: one, or the shards that the index names."""
    if (directory / SINGLE).exists():
        return [directory / SINGLE]
    if (directory / INDEX).exists():
        return _shards(directory)
    pickled = sorted(directory.glob("*.bin")) + sorted(directory.glob("*.pt")) + sorted(directory.glob("*.ckpt"))
    if pickled:
        raise UserError(
            f"{directory} has only {pickled[0].name}, a pickle: opening one can run code that is hidden in it",
            f"if you trust where it comes from: regard convert {directory} NEW_DIRECTORY --allow-pickle",
        )
    raise UserError(f"{directory} has no {SINGLE}", f"expected {SINGLE} or {INDEX} beside config.json")


def _shards(directory: Path) -> list[Path]:
    index = read_json(directory / INDEX)
    table = index.get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise UserError(f"{directory / INDEX}: weight_map is not a table of file names")
    files = []
    for name in sorted(set(table.values())):
        if Path(name).name != name or name.startswith(".") or not name.endswith(".safetensors"):
            raise UserError(f"{directory / INDEX} names the shard {name!r}", "shards stand beside the index")
        files.append(directory / name)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise UserError(f"{directory}: {len(missing)} shards are missing: {', '.join(missing[:5])}")
    for file in files:
        listed = {tensor for tensor, name in table.items() if name == file.name}
        if listed != read_header(file).keys():
            raise UserError(f"{directory / INDEX} does not list the tensors that {file.name} holds")
    return files


def read_header(path: Path) -> dict[str, Entry]:
    """Names and shapes, or an error; nothing else is read."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            raw = file.read(8)
            length = struct.unpack("<Q", raw)[0] if len(raw) == 8 else 0
            if not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
                raise UserError(
                    f"{path} is not a whole safetensors file: {size:,} bytes, header said to be {length:,}",
                    "download or save it again",
                )
            header = json.loads(file.read(length), object_pairs_hook=_unique(path))
        with safe_open(path, "pt"):  # the library's own checks: offsets, overlaps, holes, lengths
            pass
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a whole safetensors file: {error}", "download or save it again") from error
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise UserError(f"{path} holds {len(header):,} tensors", f"at most {MAX_TENSORS:,} are accepted")
    return {name: _entry(path, name, fields) for name, fields in header.items()}


def _entry(path: Path, name: str, fields: Any) -> Entry:
    if fields["dtype"] not in _DTYPES | {"I64", "I32", "U8", "BOOL", "I8", "I16"}:
        raise UserError(f"{path}: {name} has type {fields['dtype']}", f"expected one of {', '.join(sorted(_DTYPES))}")
    return Entry(path, name, tuple(fields["shape"]))


def _unique(path: Path) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise UserError(f"{path}: a tensor stands twice in the header", "the file is damaged or hostile")
        return dict(pairs)

    return build


def read_headers(files: list[Path]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for file in files:
        for name, entry in read_header(file).items():
            if name in entries:
                raise UserError(f"{name} stands in both {entries[name].file.name} and {file.name}")
            entries[name] = entry
    return entries


class Reader:
    """Tensors of one or several files, memory-mapped: pages are read when they are used."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = entries
        self.opened: dict[Path, Any] = {}
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def read(self, name: str) -> Tensor:
        entry = self.entries[name]
        if entry.file not in self.opened:
            self.opened[entry.file] = self.stack.enter_context(safe_open(entry.file, "pt"))
        return self.opened[entry.file].get_tensor(entry.name)


def write_tensors(directory: Path, tensors: Mapping[str, Tensor], shard_bytes: int) -> None:
    """One file, or shards and their index; every file is new and replaces the old one in one step."""
    shards = _split(tensors, shard_bytes)
    if len(shards) == 1:
        _write_file(directory / SINGLE, shards[0])
        (directory / INDEX).unlink(missing_ok=True)
        return
    table = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _write_file(directory / name, shard)
        table |= dict.fromkeys(shard, name)
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    write_text(directory / INDEX, json.dumps({"metadata": {"total_size": total}, "weight_map": table}, indent=2))
    (directory / SINGLE).unlink(missing_ok=True)


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
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, {"format": "pt"})
        publish(temporary, path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} could not be written: {error}", "the old file, if any, is untouched") from error
    finally:
        for leftover in (temporary, *path.parent.glob(f"{temporary.name}.*")):
            leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        publish(temporary, path)
    except OSError as error:
        raise UserError(f"{path} could not be written: {error}", "the old file, if any, is untouched") from error
    finally:
        temporary.unlink(missing_ok=True)


def publish(temporary: Path, path: Path) -> None:
    """Make a finished file visible under its name, on disk before the name changes."""
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(0o666 & ~umask)  # safetensors creates its files for the owner alone
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
