"""Checkpoints in shares, one or two files a rank, through torch.distributed.checkpoint in safetensors.

A tensor has the same name here as in checkpoint.py, and the reader takes whole files and shares alike: what any number
of ranks has written, any other number reads. The storage is always given: DCP's own default is pickle, which runs
what it reads.
"""

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from regard.errors import BAD_INPUT, FAILURE, UserError
from regard.training.checkpoint import fingerprint


def write(place: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """All ranks at once, or all fail."""
    state = {**model.state_dict(), **_moments(model, optimizer)}
    numbers = {name: 2 if "/" in name else 1 for name in state}  # weights apart: averaging reads only them
    writer = HuggingFaceStorageWriter(str(place), fqn_to_index_mapping=numbers, save_distributed=True)
    try:
        save(state, storage_writer=writer)
    except CheckpointException as error:  # on every rank, with the failures of all
        shutil.rmtree(place, ignore_errors=True)
        raise _failed("written to", place, error, FAILURE) from error


def marks_of(place: Path, rank: int) -> dict[str, list[Any]]:
    """What this rank has written: size and hash of each file."""
    return {path.name: fingerprint(path) for path in place.glob(f"shard-{rank + 1:05d}-*.safetensors")}


def read(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, *, alone: bool) -> None:
    """Put weights and moments back: all of them `alone`, else each rank what it holds, all at once."""
    parameters = dict(model.named_parameters())
    state: dict[str, Tensor] = dict(model.state_dict())
    for key in HuggingFaceStorageReader(str(path)).read_metadata().state_dict_metadata:
        name, slash, kind = key.rpartition("/")
        if slash:
            like = parameters[name]
            empty = torch.zeros((), device=like.device) if kind == "step" else torch.zeros_like(like)
            state[key] = optimizer.state[like][kind] = empty.detach()
    _load(path, state, alone=alone)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The whole weights, for this process alone."""
    found = HuggingFaceStorageReader(str(path)).read_metadata().state_dict_metadata
    state = {
        name: torch.empty(meta.size, dtype=meta.properties.dtype)  # type: ignore[union-attr]
        for name, meta in found.items()
        if "/" not in name
    }
    _load(path, state, alone=True)
    return state


def _load(path: Path, state: dict[str, Tensor], *, alone: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as is meant
        try:
            load(state, storage_reader=HuggingFaceStorageReader(str(path)), no_dist=alone)
        except CheckpointException as error:
            raise _failed("read from", path, error, BAD_INPUT) from error


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{kind}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
    }


def _failed(verb: str, place: Path, error: CheckpointException, code: int) -> UserError:
    causes = ", ".join(f"rank {rank}: {failure[0]}" for rank, failure in error.failures.items())
    return UserError(
        f"the checkpoint could not be {verb} {place}: {causes}", "the one before it is untouched", exit_code=code
    )
