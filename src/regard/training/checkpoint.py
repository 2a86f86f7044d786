"""Checkpoints that survive anything: a directory appears whole or not at all.

    checkpoints/step-00001200/    model.safetensors  optimizer.safetensors  manifest.json
    checkpoints/latest            the name of the newest one

Where FSDP has spread the model over several ranks, shard-*.safetensors (sharded.py) stand for the first two files.

A checkpoint is written under a temporary name, flushed to disk, and renamed; then `latest` moves; then old ones go.
Readers ignore temporary names, so a kill at any moment leaves the last published checkpoint in charge.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import FAILURE, UserError, notify
from regard.files import flush, read_json_object

MANIFEST = "manifest.json"
FILES = ("model.safetensors", "optimizer.safetensors")
RETIRED = ".tmp-retired"


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, meta: Mapping[str, Any]) -> Path:
    """Publish the checkpoint of `step` and make it the latest. `meta` is whatever a resumed run must know."""
    place = begin(folder, step)
    with abandoned_on_error(place):
        for name, tensors in zip(FILES, (weights_of(model), moments_of(model, optimizer)), strict=True):
            save_file(tensors, place / name)
        return publish(place, step, {name: fingerprint(place / name) for name in FILES}, meta)


def begin(folder: Path, step: int) -> Path:
    """An empty folder to fill; readers do not look at its name."""
    place = folder / f"{path_of(folder, step).name}.tmp-{os.getpid()}"
    with abandoned_on_error(place):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    return place


def publish(place: Path, step: int, files: Mapping[str, Any], meta: Mapping[str, Any]) -> Path:
    """Make the folder that `begin` gave, filled with `files`, the checkpoint of `step`."""
    folder, final = place.parent, path_of(place.parent, step)
    with abandoned_on_error(place):
        manifest = json.dumps({"step": step, "files": files, **meta}, indent=2)
        (place / MANIFEST).write_text(manifest, encoding="utf-8")
        for name in (*files, MANIFEST):
            flush(place / name)
        retired = final.with_name(final.name + RETIRED)
        if final.exists():  # the same step again, after a resume: the old one stays readable until the new one is there
            shutil.rmtree(retired, ignore_errors=True)
            final.rename(retired)
        place.rename(final)
        flush(folder)
        point_to(folder / "latest", final.name)
        shutil.rmtree(retired, ignore_errors=True)
    return final


@contextmanager
def abandoned_on_error(place: Path) -> Iterator[None]:
    """What cannot be written whole is not left behind."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        shutil.rmtree(place, ignore_errors=True)
        before = (place.parent / "latest").exists()
        hint = "the one before it is untouched; free some space and run `regard resume`"
        raise UserError(
            f"the checkpoint {place.name.partition('.')[0]} could not be written to {place.parent}: {error}",
            hint if before else "there is none before it; free some space and start again",
            exit_code=FAILURE,
        ) from error


def path_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def point_to(pointer: Path, name: str) -> None:
    temporary = pointer.with_name(f"{pointer.name}.tmp-{os.getpid()}")
    temporary.write_text(name + "\n", encoding="utf-8")
    flush(temporary)
    temporary.replace(pointer)


def prune(folder: Path, keep: Collection[int]) -> None:
    """Remove the checkpoints of all other steps, and what an interrupted save left behind."""
    for path in folder.iterdir():
        number = path.name.removeprefix("step-")
        if ".tmp-" in path.name or (number.isdecimal() and number != path.name and int(number) not in keep):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def latest(folder: Path) -> Path | None:
    """The newest checkpoint that is whole; an older one where the newest is damaged."""
    for retired in folder.glob(f"step-*{RETIRED}"):  # a kill fell between the two renames of `save`
        final = retired.with_name(retired.name.removesuffix(RETIRED))
        if not final.exists():
            retired.rename(final)
    published = sorted((path for path in folder.glob("step-*") if ".tmp-" not in path.name), reverse=True)
    for path in published:
        if is_whole(path):
            return path
        notify(f"{path} is damaged and was passed over")
    if published:
        hint = f"to start again, delete {folder} and use `regard train`"
        raise UserError(f"no checkpoint in {folder} is whole", hint)
    return None


def is_whole(path: Path) -> bool:
    if not (path / MANIFEST).is_file():
        return False
    try:
        files = read_json_object(path / MANIFEST).get("files")
    except UserError:
        return False
    if not isinstance(files, dict) or not files or any(Path(name).name != name for name in files):
        return False
    return all((path / name).is_file() and fingerprint(path / name) == mark for name, mark in files.items())


def restore(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put weights and moments back exactly; returns the manifest."""
    manifest = read_json_object(path / MANIFEST)
    if not is_in_one_piece(path):
        from regard.training.sharded import read  # slow to import, and only what several ranks wrote needs it

        read(path, model, optimizer, alone=True)
        return manifest
    model.load_state_dict(load_file(path / FILES[0]))
    tensors = load_file(path / FILES[1])
    state: dict[int, dict[str, Tensor]] = {}
    names = _names(model, optimizer)
    for key, tensor in tensors.items():
        name, _, kind = key.rpartition("/")
        state.setdefault(names.index(name), {})[kind] = tensor
    current = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})
    return manifest


def is_in_one_piece(path: Path) -> bool:
    """Written by one process, and not in shares by several ranks."""
    return (path / FILES[0]).is_file()


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}


def moments_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's averages by the name of their parameter: `encoder.blocks.0.attn.q.weight/exp_avg`."""
    names = _names(model, optimizer)
    return {
        f"{names[index]}/{kind}": torch.as_tensor(value).contiguous()
        for index, moments in optimizer.state_dict()["state"].items()
        for kind, value in moments.items()
    }


def _names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Of the parameters in the order in which the optimizer numbers them: group by group."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]


def average(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights (section 6.1 of the paper), summed in float64."""
    total = {name: tensor.double() for name, tensor in _weights_in(paths[0]).items()}
    for path in paths[1:]:
        for name, tensor in _weights_in(path).items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _weights_in(path: Path) -> dict[str, Tensor]:
    if is_in_one_piece(path):
        return load_file(path / FILES[0])
    from regard.training.sharded import read_weights  # slow to import, as above

    return read_weights(path)


def mark_of(path: Path) -> str:
    """What tells this checkpoint from any other of its name; its manifest names the hash of every file."""
    return str(fingerprint(path / MANIFEST)[1])


def fingerprint(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]
