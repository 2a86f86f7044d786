"""Open and save models. A saved model is a Hugging Face directory: config.json and model.safetensors."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.config import require
from regard.errors import UserError, pick
from regard.files import read_json_object, write_json
from regard.layers.lora import merge, require_plain
from regard.layers.short import ShortWeight
from regard.machine import return_memory
from regard.models.base import Model
from regard.pretrained.bundled import by_name, near_name
from regard.weights.fit import Held, assign, check, check_copies, check_implied, described_by, shorten
from regard.weights.keymap import KeyMap, Source
from regard.weights.layout import LAYOUTS, Layout
from regard.weights.peft import CONFIG, is_adapter, load_adapter, read_settings, with_head
from regard.weights.permute import halves_first
from regard.weights.tensorfile import PICKLES, Entry, read_headers, reader, refuse_pickle, write_tensors

SHARD_BYTES = 5 * 10**9
GIVE = "give the model's directory, a .gguf file, or hf:owner/name"


def load_model(
    source: str | Path, *, dtype: Held | None = torch.float32, device: str = "cpu", revision: str | None = None
) -> Model:
    """The bare torch module, in evaluation mode: `load_model("DIR")(ids).logits`.

    `source` is a directory in Hugging Face layout, a GGUF file, or `hf:owner/name`, which may be pinned to a
    `revision`; an adapter of PEFT is merged into its model. `dtype=None` keeps the type of the file; short
    weights (`HalfWeight`, `Int8Weight`) are for the CPU. On the device `meta` no weight is read.
    """
    path = locate(source, revision)
    home = home_of(path)
    later = dtype if isinstance(dtype, type) and home != path else None  # nothing is added to fewer bits
    exact = torch.float32 if later else dtype
    if home.is_file():
        from regard.weights.gguf import load_gguf  # slow to import, and only GGUF files need it

        model: Model = load_gguf(home, exact, empty=device == "meta")
    else:
        model = load_directory(home, exact, empty=device == "meta", adapter=path if home != path else None)
    if home != path:
        load_adapter(model, path)
        merge(model)
    if later and device != "meta":
        shorten(model, later)
    return_memory()
    return model.to(device).eval()


def home_of(path: Path) -> Path:
    """Where the model itself is: the path, or for an adapter of PEFT what it was trained on."""
    if not is_adapter(path):
        return path
    hint = (
        f"{path} is an adapter of it; write a directory or hf:owner/name as base_model_name_or_path into its {CONFIG}"
    )
    settings = read_settings(path)
    home = locate(by_name(settings.base_model_name_or_path), settings.revision, give=hint)
    require(
        not is_adapter(home), f"{home} is an adapter, and so is {path}", f"regard convert {home} DIR makes it a model"
    )
    return home


def locate(source: str | Path, revision: str | None = None, *, give: str = GIVE) -> Path:
    """The directory or GGUF file that `source` names; `hf:` is the only way to the network."""
    text = str(source)
    if text.startswith("hf:"):
        from regard.weights.hub import fetch  # slow to import, and only `hf:` needs it

        return fetch(text.removeprefix("hf:"), revision)
    try:
        path = Path(source).expanduser()
        if (text and path.is_dir()) or (path.is_file() and path.suffix == ".gguf"):
            return path
        if path.is_file() and path.suffix in PICKLES:
            raise refuse_pickle(path)
        problem = f"{path} is a file" if path.is_file() else f"there is no model at '{text}'"
    except (OSError, RuntimeError) as error:  # a name too long, an unknown ~user
        problem = f"there is no model at {text[:80]}: {getattr(error, 'strerror', '') or error}"
    raise UserError(problem, near_name(text) or give)


def load_directory(directory: Path, held: Held | None, *, empty: bool = False, adapter: Path | None = None) -> Model:
    theirs, layout = read_layout(directory)
    entries = read_headers(directory)
    if adapter is not None:
        theirs, entries = with_head(adapter, layout, theirs, entries)
    with described_by(directory / "config.json"):
        model = layout.family.build(layout.with_known_tokens(layout.read(theirs, entries.keys())))
    keys = layout.keymap(model.config)
    sources = keys.sources(model.state_dict(), bare=keys.is_bare(entries))
    entries = _resolve_old_names(entries, sources, layout.copies)
    whose = f"{directory} with the head that its adapter {adapter} brings" if adapter else directory
    check(whose, model, sources, entries, layout.spare(model.config))
    if not empty:
        wanted = {source.theirs for source in sources}
        check_copies(directory, layout.tied(wanted), entries)
        check_implied(directory, layout.special.implied(model.config), entries)
        assign(model, sources, reader(entries, held), held)
    return model


def read_layout(directory: Path) -> tuple[dict[str, Any], Layout]:
    path = directory / "config.json"
    if not path.exists():
        kept = [directory / name for name in ("model", "best") if (directory / "run.toml").exists()]
        inner = sorted(str(each.parent) for each in directory.glob("*/config.json"))
        held = f"there is one in {' and in '.join(inner)}" if 0 < len(inner) <= 3 else GIVE
        hint = next((f"it is the folder of a run, whose model is {each}" for each in kept if each.is_dir()), held)
        raise UserError(f"there is no model in {directory} (no config.json)", hint)
    theirs = read_json_object(path, finite=False)
    hint = "if the model is an ordinary one without that code, delete auto_map from the file"
    require(not theirs.get("auto_map"), f"{path} names code of its own (auto_map), which is never run", hint)
    name = theirs.get("model_type")
    if not isinstance(name, str) or name not in LAYOUTS:
        known = ", ".join(sorted(LAYOUTS))
        raise UserError(f"{path}: model_type is {str(name)[:60]!r}, which regard does not open", f"it opens {known}")
    return theirs, LAYOUTS[name]


def _resolve_old_names(
    entries: dict[str, Entry], sources: list[Source], copies: Iterable[tuple[str, str]]
) -> dict[str, Entry]:
    """Files converted from TensorFlow call the two parameters of a norm gamma and beta; others keep only a copy."""
    old, wanted = {".weight": ".gamma", ".bias": ".beta"}, {source.theirs for source in sources}
    taken: set[tuple[str, str]] = set()
    for name in wanted - entries.keys():
        stem, dot, kind = name.rpartition(".")
        others = [stem + old.get(dot + kind, ""), *(b if a == name else a for a, b in copies if name in (a, b))]
        taken |= {(name, other) for other in others if other in entries and other not in wanted}
    rest = {name: entry for name, entry in entries.items() if name not in {other for _, other in taken}}
    return rest | {name: entries[other] for name, other in taken}


def save_model(model: Model, directory: str | Path, *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write the model so that transformers opens it; a crash leaves the old files whole."""
    require_plain(model)
    fused = any(getattr(module, "qkv", None) is not None for module in model.modules())
    short = any(isinstance(getattr(module, "weight", None), ShortWeight) for module in model.modules())
    found = "the model is made for reading and writing only: its weights are joined or in fewer bits"
    require(not fused and not short, found, "save what regard.load_model(...) gives")
    directory = Path(directory)
    config, tensors = model.config, dict(model.state_dict())
    if getattr(config, "position", None) == "sinusoidal":  # the layouts have sines in the first half
        tensors = halves_first(tensors, config.d_model)
        config = replace(config, position="sinusoidal_halves")
    layout = pick(config.layout, LAYOUTS, "layout")
    theirs = export(layout.keymap(config), tensors, bare=layout.is_bare(config))
    theirs |= layout.special.constants(config, theirs)
    layout.check(config, theirs.keys())
    write_tensors(directory, theirs, shard_bytes)
    dtype = str(next(iter(theirs.values())).dtype).removeprefix("torch.")
    write_json(directory / "config.json", layout.write(config) | {"dtype": dtype})


def export(keys: KeyMap, tensors: Mapping[str, Tensor], *, bare: bool) -> dict[str, Tensor]:
    """Our tensors under their names."""
    sources = keys.sources(tensors, bare=bare)
    return {source.theirs: source.edit.join([tensors[name] for name in source.ours]) for source in sources}
