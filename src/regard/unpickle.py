"""Pickled weights (.bin, .pt) turned into safetensors: the one door for them, and a process of its own.

    python -m regard.unpickle DIRECTORY FILE...

A pickle is a program. PyTorch's restricted reader runs only the few calls that rebuild tensors; what those may
claim about sizes is checked here, against the bytes that are really in the file.
"""

import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import BAD_INPUT, UserError
from regard.weights.tensorfile import write_tensors

ZIPPED, LEGACY = b"PK\x03\x04", b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
"How torch.save begins a file, since version 1.6 and before."
MAX_COPIES = 8
"How often bytes may be shared: T5 stores one table under four names."


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of one file by name, each with memory of its own."""
    zipped = check_container(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:  # whatever a damaged or hostile file makes the reader raise
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{path} was refused: {reason[0]}", "it is damaged, or holds more than weights") from error
    for key in ("state_dict", "model"):  # how training programs wrap the weights
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    return own_memory(path, found)


def check_container(path: Path) -> bool:
    """Whether it is a zip file. What would unpack to more than it is, is refused before it is unpacked."""
    with path.open("rb") as file:
        start = file.read(len(LEGACY))
    if start == LEGACY:
        return False
    if not start.startswith(ZIPPED):
        raise UserError(f"{path} is not a file that torch.save wrote: it begins with {start!r}", "get it again")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UserError(f"{path} is not a whole zip file: {error}", "get it again") from error
    packed = [member.filename for member in members if member.compress_type != zipfile.ZIP_STORED]
    total, size = sum(member.file_size for member in members), path.stat().st_size
    if packed or total > size:
        found = f"{packed[0][:80]} is compressed" if packed else f"its parts claim {total:,} bytes of {size:,}"
        raise UserError(f"{path} was refused: {found}", "torch.save compresses nothing; get the file again")
    return True


def own_memory(path: Path, found: Any) -> dict[str, Tensor]:
    """Plain tensors, none larger than its bytes. safetensors shares no memory, so tied ones become copies."""
    if not isinstance(found, Mapping) or not found:
        raise UserError(f"{path} holds something of type {type(found).__name__}", "expected tensors by name")
    result, storages, held, total = {}, set[int](), 0, 0
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.layout != torch.strided:
            raise UserError(f"{path}: {str(name)[:80]!r} is of type {type(value).__name__}", "expected plain tensors")
        storage, claimed = value.untyped_storage(), value.numel() * value.element_size()
        seen = storage.data_ptr() in storages
        storages.add(storage.data_ptr())
        held, total = held + (0 if seen else storage.nbytes()), total + claimed
        if claimed > storage.nbytes() or total > MAX_COPIES * held or value.is_quantized or value.is_meta:
            shape = f"{name} has shape {list(value.shape)}, but only {storage.nbytes():,} bytes of its own"
            raise UserError(f"{path}: {shape}", "it would fill the memory; save it with .contiguous()")
        result[name] = value.detach().clone() if seen else value.detach()
    return result


def main(directory: str, *files: str) -> None:
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= read_pickle(Path(file))
    write_tensors(Path(directory), tensors, sys.maxsize)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.stdout.write(json.dumps({"message": error.message, "hint": error.hint}))
        sys.exit(BAD_INPUT)
