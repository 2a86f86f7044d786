"""Putting a file's tensors into a model that was built without memory, once every name and shape is known to fit."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.config import require
from regard.errors import UserError
from regard.layers.embedding import TokenTable
from regard.layers.head import Unembed
from regard.layers.linear import Linear, hold
from regard.layers.position import sinusoids
from regard.layers.short import ROWS, ShortWeight
from regard.models.base import without_memory
from regard.weights.keymap import Source
from regard.weights.tensorfile import FLOATS, Entry, Read, read_one

Held = torch.dtype | type[ShortWeight]
"As what weights are held: all as one type, or matrices as short weights and the rest in float32."


@contextmanager
def described_by(path: Path) -> Iterator[None]:
    """Whatever is wrong with a model that is built from a file's settings, and without memory, is said of the file."""
    try:
        with without_memory():
            yield
    except UserError as error:
        hint = error.hint or "correct the file, or get it again"
        raise UserError(f"{path}: {error.message.removeprefix('config.json: ')}", hint) from error
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{path} describes no model: {error}", "a value has the wrong type or size") from error


def check(
    path: Path | str, model: nn.Module, sources: Iterable[Source], entries: Mapping[str, Entry], spare: re.Pattern[str]
) -> None:
    """Every difference between what the configuration asks for and what the files hold; `spare` ones may be there."""
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    problems, wanted = [], set()
    for source in sources:
        wanted.add(source.theirs)
        expected = list(source.edit.join([torch.empty(shapes[name], device="meta") for name in source.ours]).shape)
        if source.theirs not in entries:
            problems.append(f"{source.theirs} is missing, expected {expected}")
        elif (found := list(entries[source.theirs].shape)) != expected:
            problems.append(f"{source.theirs} has shape {found}, expected {expected}")
        elif (dtype := entries[source.theirs].dtype) not in FLOATS:
            problems.append(f"{source.theirs} holds {dtype}, expected one of {', '.join(FLOATS)}")
    problems += [
        f"{name} is not part of the model" for name in entries if name not in wanted and not spare.fullmatch(name)
    ]
    if problems:
        shown = "".join(f"\n    {problem}" for problem in problems[:20])
        more = f"\n    ... and {len(problems) - 20} more" if len(problems) > 20 else ""
        message = f"{path}: the configuration and the weights do not fit ({len(problems)} differences){shown}{more}"
        hint = "check that both belong to the same model and that config.json names the right architecture"
        raise UserError(message, hint)


def check_copies(path: Path, copies: Mapping[str, str], entries: Mapping[str, Entry]) -> None:
    """What a file holds beside what is read of it must be what it is tied to: transformers reads it."""
    hint = "if that is meant, config.json must say so (tie_word_embeddings); else get the file again"
    for name in copies.keys() & entries.keys():
        same = torch.equal(read_one(entries[name]), read_one(entries[copies[name]]))
        what = f"{path}: {name} is not the same as {copies[name]}, to which the configuration ties it"
        require(same, what, hint)


def check_implied(path: Path, implied: Mapping[str, tuple[int, int]], entries: Mapping[str, Entry]) -> None:
    """Nor may a file hold other positions than the sinusoids; how many there are is compared before any is computed."""
    for name, shape in implied.items():
        if name in entries:
            what = f"{path}: {name} has shape {list(entries[name].shape)}, expected {list(shape)}"
            require(entries[name].shape == shape, what, "check max_position_embeddings and d_model in config.json")
            ours = sinusoids(*shape, interleaved=False)
            same = torch.allclose(read_one(entries[name]).float(), ours, rtol=0, atol=1e-2)  # rounded as the file is
            what = f"{path}: {name} is not the same as the sinusoids that stand for positions"
            require(same, what, "no other positions can be had here; get the file again")


def assign(model: nn.Module, sources: Iterable[Source], read: Read, held: Held | None) -> None:
    """One tensor at a time, so that no second copy of the weights is ever held.

    The largest comes first, while there is nothing beside it; what is to be short is read and rounded in parts.
    """
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    for source in sorted(sources, key=lambda source: -sum(shapes[name].numel() for name in source.ours)):
        owner, _, leaf = source.ours[0].rpartition(".")
        layer = model.get_submodule(owner)
        if isinstance(held, type) and source.edit.is_plain and is_shortened(layer) and leaf == "weight":
            shape = shapes[source.ours[0]]
            parts = (read(source, slice(at, at + ROWS)) for at in range(0, shape[0], ROWS))
            hold(layer, "weight", held.of_parts(parts, shape, table=isinstance(layer, TokenTable)))
            continue
        tensor = read(source)
        if held is not None:
            tensor = tensor.to(held if isinstance(held, torch.dtype) else torch.float32)
        for name, part in zip(source.ours, source.edit.split(tensor), strict=True):
            owner, _, leaf = name.rpartition(".")
            layer = model.get_submodule(owner)
            hold(layer, leaf, part)
            if isinstance(held, type) and leaf == "weight":
                shorten(layer, held)


def is_shortened(layer: nn.Module) -> bool:
    return isinstance(layer, Linear | TokenTable | Unembed)


def shorten(model: nn.Module, kind: type[ShortWeight]) -> None:
    for layer in model.modules():
        if is_shortened(layer) and isinstance(layer.weight, Tensor):
            hold(layer, "weight", kind.of(layer.weight.detach(), table=isinstance(layer, TokenTable)))
