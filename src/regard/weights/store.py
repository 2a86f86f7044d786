"""Open and save models. A saved model is a Hugging Face directory: config.json and model.safetensors."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import read_json
from regard.errors import UserError, pick
from regard.models.base import Model
from regard.weights import bart, bert, gpt2, llama, recurrent, t5, vit
from regard.weights.keymap import KeyMap, Source
from regard.weights.layout import Layout
from regard.weights.permute import halves_first
from regard.weights.tensorfile import Entry, find_files, read_headers, read_tensors, write_tensors, write_text

LAYOUTS: dict[str, Layout] = {
    layout.model_type: layout for family in (bart, bert, gpt2, llama, recurrent, t5, vit) for layout in family.LAYOUTS
}
SHARD_BYTES = 5 * 10**9


def load_model(
    source: str | Path, *, dtype: torch.dtype | None = torch.float32, device: str = "cpu", revision: str | None = None
) -> Model:
    """The bare torch module, in evaluation mode: `load_model("DIR")(ids).logits`.

    `source` is a directory in Hugging Face layout, a GGUF file, or `hf:owner/name`, which may be pinned to a
    `revision`. `dtype=None` keeps the type of the file.
    """
    path = locate(source, revision)
    if path.is_file():
        gguf = importlib.import_module("regard.weights.gguf")  # 0.6 s to import, and only GGUF needs it
        model: Model = gguf.load_gguf(path, dtype)
    else:
        model = load_directory(path, dtype)
    return model.to(device).eval()


def locate(source: str | Path, revision: str | None = None) -> Path:
    """The directory or GGUF file that `source` names; `hf:` is the only way to the network."""
    text = str(source)
    if text.startswith("hf:"):
        hub = importlib.import_module("regard.weights.hub")  # 0.3 s to import, and only `hf:` needs it
        return hub.fetch(text.removeprefix("hf:"), revision)
    path = Path(source).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return path
    if path.is_file():
        raise UserError(f"{path} is a file", "give the model's directory, a .gguf file, or hf:owner/name")
    if not path.is_dir():
        raise UserError(f"there is no model at {path}", "give a model's directory, a .gguf file, or hf:owner/name")
    return path


def load_directory(directory: Path, dtype: torch.dtype | None) -> Model:
    theirs, layout = read_layout(directory)
    entries = read_headers(find_files(directory))
    config = layout.read(theirs, entries.keys())
    with torch.device("meta"):
        model = layout.build(config)
    keys = layout.tensors(config)
    sources = keys.sources(model.state_dict(), bare=keys.is_bare(entries))
    entries = _resolve_old_names(entries, sources)
    _check(directory, model, layout, sources, entries)
    assign(model, sources, dict(read_tensors(entries, [source.theirs for source in sources])), dtype)
    return model


def read_layout(directory: Path) -> tuple[dict[str, Any], Layout]:
    theirs = read_json(directory / "config.json")
    name = theirs.get("model_type")
    if not isinstance(name, str):
        raise UserError(f"{directory / 'config.json'} has no model_type", f"known: {', '.join(sorted(LAYOUTS))}")
    return theirs, pick(name, LAYOUTS, "model_type", listing="regard list families")


def _resolve_old_names(entries: dict[str, Entry], sources: list[Source]) -> dict[str, Entry]:
    """Files converted from TensorFlow call the two parameters of a norm gamma and beta."""
    old = {".weight": ".gamma", ".bias": ".beta"}
    renamed = dict(entries)
    for source in sources:
        stem, dot, kind = source.theirs.rpartition(".")
        alias = stem + old.get(dot + kind, "")
        if source.theirs not in entries and alias in entries:
            renamed[source.theirs] = renamed.pop(alias)
    return renamed


def _check(
    directory: Path, model: nn.Module, layout: Layout, sources: list[Source], entries: Mapping[str, Entry]
) -> None:
    """Every difference between what the configuration asks for and what the files hold, at once."""
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    problems = []
    for source in sources:
        expected = tuple(source.edit.join([torch.empty(shapes[name], device="meta") for name in source.ours]).shape)
        if source.theirs not in entries:
            problems.append(f"{source.theirs} is missing, expected {list(expected)}")
        elif entries[source.theirs].shape != expected:
            found = entries[source.theirs].shape
            problems.append(f"{source.theirs} has shape {list(found)}, expected {list(expected)}")
    wanted = {source.theirs for source in sources}
    problems += [
        f"{name} is not part of the model" for name in entries if name not in wanted and not layout.knows(name)
    ]
    if problems:
        shown = "".join(f"\n    {problem}" for problem in problems[:20])
        more = f"\n    ... and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise UserError(
            f"{directory}: config.json and the weights do not fit ({len(problems)} differences){shown}{more}",
            "check that both belong to the same model and that config.json names the right architecture",
        )


def assign(model: nn.Module, sources: list[Source], tensors: dict[str, Tensor], dtype: torch.dtype | None) -> None:
    """Put their tensors into our model, one at a time, so that no second copy of the weights is ever held."""
    for source in sources:
        tensor = tensors.pop(source.theirs)
        tensor = tensor if dtype is None else tensor.to(dtype)
        for name, part in zip(source.ours, source.edit.split(tensor), strict=True):
            owner, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(owner), leaf, nn.Parameter(part, requires_grad=part.is_floating_point()))


def save_model(model: Model, directory: str | Path, *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write the model so that transformers opens it; a crash leaves the old files whole."""
    directory = Path(directory)
    config, tensors = model.config, dict(model.state_dict())
    if getattr(config, "position", None) == "sinusoidal":  # the layouts have sines in the first half
        tensors = halves_first(tensors, config.d_model)
        config = replace(config, position="sinusoidal_halves")
    layout = pick(config.layout, LAYOUTS, "layout")
    theirs = export(layout.tensors(config), tensors, bare=layout.is_bare(config)) | layout.constants(config)
    layout.check(config, theirs.keys())
    directory.mkdir(parents=True, exist_ok=True)
    write_tensors(directory, theirs, shard_bytes)
    dtype = str(next(iter(theirs.values())).dtype).removeprefix("torch.")
    write_text(directory / "config.json", json.dumps(layout.write(config) | {"dtype": dtype}, indent=2))


def export(keys: KeyMap, tensors: Mapping[str, Tensor], *, bare: bool) -> dict[str, Tensor]:
    """Our tensors under their names."""
    return {
        source.theirs: source.edit.join([tensors[name] for name in source.ours])
        for source in keys.sources(tensors, bare=bare)
    }
