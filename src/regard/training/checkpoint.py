"""Checkpoints that survive anything: a directory appears whole or not at all.

    checkpoints/step-00001200/    model.safetensors  optimizer.safetensors  manifest.json
    checkpoints/latest            the name of the newest one

A checkpoint is written under a temporary name, flushed to disk, and renamed; then `latest` moves; then old ones go.
Readers ignore temporary names, so a kill at any moment leaves the last published checkpoint in charge.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import FAILURE, UserError
from regard.files import flush, read_json_object

FILES = ("model.safetensors", "optimizer.safetensors")
RETIRED = ".tmp-retired"


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, meta: Mapping[str, Any]) -> Path:
    """Publish the checkpoint of `step` and make it the latest. `meta` is whatever a resumed run must know."""
    final = path_of(folder, step)
    temporary = folder / f"{final.name}.tmp-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for name, tensors in zip(FILES, (weights_of(model), moments_of(model, optimizer)), strict=True):
            save_file(tensors, temporary / name)
        files = {name: _fingerprint(temporary / name) for name in FILES}
        manifest = json.dumps({"step": step, "files": files, **meta}, indent=2)
        (temporary / "manifest.json").write_text(manifest, encoding="utf-8")
        for name in (*FILES, "manifest.json"):
            flush(temporary / name)
        retired = final.with_name(final.name + RETIRED)
        if final.exists():  # the same step again, after a resume: the old one stays readable until the new one is there
            shutil.rmtree(retired, ignore_errors=True)
            final.rename(retired)
        temporary.rename(final)
        flush(folder)
        point_to(folder / "latest", final.name)
        shutil.rmtree(retired, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UserError(
            f"the checkpoint of step {step} could not be written to {folder}: {error}",
            "the one before it is untouched; free some space and run `regard resume`",
            exit_code=FAILURE,
        ) from error
    return final


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
        if ".tmp-" in path.name or (path.name.startswith("step-") and int(path.name[5:]) not in keep):
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
    if published:
        raise UserError(f"no checkpoint in {folder} is whole", "start again with `regard train`")
    return None


def is_whole(path: Path) -> bool:
    if not (path / "manifest.json").is_file():
        return False
    files = read_json_object(path / "manifest.json").get("files", {})
    return all((path / name).is_file() and _fingerprint(path / name) == files.get(name) for name in FILES)


def restore(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put weights and moments back exactly; returns the manifest."""
    model.load_state_dict(load_file(path / FILES[0]))
    tensors = load_file(path / FILES[1])
    state: dict[int, dict[str, Tensor]] = {}
    names = [name for name, _ in model.named_parameters()]
    for key, tensor in tensors.items():
        name, _, kind = key.rpartition("/")
        state.setdefault(names.index(name), {})[kind] = tensor
    current = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})
    return read_json_object(path / "manifest.json")


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}


def moments_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's averages by the name of their parameter: `encoder.blocks.0.attn.q.weight/exp_avg`."""
    names = [name for name, _ in model.named_parameters()]
    return {
        f"{names[index]}/{kind}": torch.as_tensor(value).contiguous()
        for index, moments in optimizer.state_dict()["state"].items()
        for kind, value in moments.items()
    }


def average(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights (section 6.1 of the paper), summed in float64."""
    total = {name: tensor.double() for name, tensor in load_file(paths[0] / FILES[0]).items()}
    for path in paths[1:]:
        for name, tensor in load_file(path / FILES[0]).items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _fingerprint(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]
