"""Adapters as PEFT writes them: adapter_config.json and adapter_model.safetensors.

Which layer is which says the layout's table of tensors. GPT-2 keeps queries, keys and values in one matrix, so theirs
have one adapter: it is written with A above A and B in blocks, and read as three that begin with the same A.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from regard.config import build, require
from regard.errors import pick
from regard.files import read_json_object, write_bytes, write_json
from regard.layers.lora import Adapted, LoraConfig, adapt, adapted, freeze, require_trainable, trainable
from regard.models.base import Model
from regard.weights.fit import check, described_by
from regard.weights.keymap import Source
from regard.weights.layout import LAYOUTS, Layout
from regard.weights.tensorfile import FLOATS, Entry, read_header, read_one

CONFIG, FILE, PREFIX = "adapter_config.json", "adapter_model.safetensors", "base_model.model."
LABELS = "labels.json"
"Names of the labels, which PEFT leaves to whoever opens an adapter: ours know their own."
A, B = ".lora_A.weight", ".lora_B.weight"
TASKS = {
    "SequenceClassification": "SEQ_CLS", "TokenClassification": "TOKEN_CLS", "QuestionAnswering": "QUESTION_ANS",
    "ForCausalLM": "CAUSAL_LM", "LMHeadModel": "CAUSAL_LM", "MTModel": "SEQ_2_SEQ_LM",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
}  # fmt: skip
"What a class of transformers ends with, and PEFT's word for its task."
RENAMED = ("vit", "deit")
"Their layers have other names in transformers than in its files, since version 5."
HEADS = re.compile(r"(.*classifier|score|qa_outputs)\..*")
"What PEFT trains whole for the first three, asked or not."
IGNORED = """peft_type peft_version auto_mapping inference_mode fan_in_fan_out target_modules modules_to_save
    exclude_modules layers_to_transform layers_pattern megatron_core qalora_group_size ensure_weight_tying"""
"Keys that decide no number: which layers have an adapter is seen in the file."
PLAIN = {"bias": ("none",), "init_lora_weights": (True, "gaussian")}
"What other keys may say; the rest must be off."


@dataclass(frozen=True)
class PeftConfig:
    """What of adapter_config.json is read."""

    base_model_name_or_path: str = ""
    revision: str | None = None
    task_type: str = ""
    r: int = 8
    lora_alpha: float = 8.0
    lora_dropout: float = 0.0
    use_rslora: bool = False
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, float] = field(default_factory=dict)

    def of(self, module: str) -> LoraConfig:
        """For the layer that they call so."""
        rank, alpha = _own(self.rank_pattern, module, self.r), _own(self.alpha_pattern, module, self.lora_alpha)
        root = math.sqrt(max(rank, 1)) if self.use_rslora else 1.0  # alpha over the root of the rank
        return LoraConfig(rank, alpha * root, self.lora_dropout, (module,))


def _own(patterns: Mapping[str, Any], module: str, usual: Any) -> Any:
    for pattern in patterns:  # any other could take for ever
        found = f"{pattern[:80]!r} in rank_pattern or alpha_pattern is not a plain name"
        require(bool(re.fullmatch(r"\^?[\w.]+", pattern)), found, "write out the names of the layers")
    return next((patterns[name] for name in patterns if re.match(rf"(.*\.)?({name})$", module)), usual)


def is_adapter(path: Path) -> bool:
    return (path / CONFIG).is_file() and not (path / "config.json").exists()


def read_settings(directory: Path) -> PeftConfig:
    path, known = directory / CONFIG, PeftConfig.__dataclass_fields__
    theirs, hint = read_json_object(path), "merge it with PEFT (merge_and_unload) and open the model that it saves"
    require(theirs.get("peft_type") == "LORA", f"{path}: peft_type is {str(theirs.get('peft_type'))[:40]!r}", hint)
    for key, value in theirs.items():
        fine = key in known or key in IGNORED.split() or value in (None, False, [], {}, *PLAIN.get(key, ()))
        require(fine, f"{path}: {key[:80]} = {str(value)[:60]} is not supported, and may change numbers", hint)
    with described_by(path):
        return build(PeftConfig, {key: theirs[key] for key in known if theirs.get(key) is not None})


def read_tensors(directory: Path) -> dict[str, Entry]:
    """By the names that the model's own tensors have."""
    hint = "opening a pickle can run code: save the adapter again with a PEFT that writes safetensors"
    require((directory / FILE).exists(), f"{directory} has no {FILE}", hint)
    return {name.removeprefix(PREFIX): entry for name, entry in read_header(directory / FILE).items()}


def with_head(
    directory: Path, layout: Layout, theirs: dict[str, Any], entries: dict[str, Entry]
) -> tuple[dict[str, Any], dict[str, Entry]]:
    """A model's config.json and tensors, with the head that its adapter brings along in the place of its own."""
    own = {name: entry for name, entry in read_tensors(directory).items() if ".lora_" not in name}
    ends = tuple(end for end, task in TASKS.items() if task == read_settings(directory).task_type and own)
    name = next((name for name in layout.architectures if name.endswith(ends)), layout.architecture_of(theirs))
    if name == (old := layout.architecture_of(theirs)):
        return theirs, entries
    tables = layout.architectures[name].tensors
    gone = tuple(f"{key}." for key in layout.architectures[old].tensors if key not in tables)
    entries = {key: entry for key, entry in entries.items() if not f"{key}.".startswith(gone)}
    outs = [f"{key}.weight" for key, rule in tables.items() if rule.ours[0].endswith(("classify", "tag"))]
    labels = sum(entry.shape[0] for key, entry in own.items() if key in outs and entry.shape)
    names = read_json_object(path) if (path := directory / LABELS).exists() else None
    return {**theirs, "architectures": [name], "id2label": names, "num_labels": labels}, entries | own


@torch.no_grad()
def load_adapter(model: Model, directory: str | Path) -> None:
    """Add the adapters in a directory to the model that they were trained on; what does not fit changes nothing."""
    directory, hint = Path(directory), "is it the model that the adapter was trained on? Else merge it with PEFT"
    settings, entries, path = read_settings(directory), read_tensors(directory), directory / FILE
    require_trainable(model)
    layout, stored = table_of(model, entries)
    refuse_tied(layout, stored, entries)
    adapters: dict[str, tuple[list[nn.Linear], LoraConfig]] = {}
    for module in [name.removesuffix(A) for name in entries if name.endswith(A)]:
        names = stored[f"{module}.weight"].ours if f"{module}.weight" in stored else ()
        parts = [model.get_submodule(name.removesuffix(".weight")) for name in names]
        layers = [part for part in parts if isinstance(part, nn.Linear)]
        require(bool(layers), f"{path}: {module} is no linear layer of the model", hint)
        with described_by(directory / CONFIG):
            adapters[module] = layers, (config := settings.of(module))
        d_in, d_out = layers[0].in_features, sum(layer.out_features for layer in layers)
        for name, shape in {module + A: (config.rank, d_in), module + B: (d_out, config.rank)}.items():
            found = entries[name].shape if name in entries and entries[name].dtype in FLOATS else "no floats"
            require(found == shape, f"{path}: {name} has {found}, expected {shape}", hint)
    rest = {name: entry for name, entry in entries.items() if name.removesuffix(A).removesuffix(B) not in adapters}
    whole = [stored[name] for name in rest if name in stored]
    check(path, model, whole, rest, spare=re.compile("$"))
    for module, (layers, config) in adapters.items():
        a, b = (read_one(entries[module + letter]) for letter in (A, B))
        for layer, part in zip(layers, b.chunk(len(layers)), strict=True):
            new = adapt(layer, config)
            new.lora_a.copy_(a)
            new.lora_b.copy_(part)
    for source in whole:
        for name, part in zip(source.ours, source.edit.split(read_one(entries[source.theirs])), strict=True):
            model.get_parameter(name).copy_(part)
    freeze(model, [name for source in whole for name in source.ours])


def table_of(model: Model, entries: Collection[str] = ()) -> tuple[Layout, dict[str, Source]]:
    """The model's layout, and its tensors by their names, which may be those of a bare model."""
    config, ours = model.config, [name for name in model.state_dict() if ".lora_" not in name]
    layout = pick(config.layout, LAYOUTS, "layout")
    keys = layout.keymap(config)
    require(
        bool(keys.rules), f"PEFT has no models of the layout '{config.layout}'", "merge the adapters into the model"
    )
    bare = keys.is_bare(entries) if entries else layout.is_bare(config)
    stored = {source.theirs: source for source in keys.sources(ours, bare=bare)}
    layout.check(config, stored)
    return layout, stored


def refuse_tied(layout: Layout, stored: Collection[str], whole: Collection[str]) -> None:
    """PEFT trains a copy of it, and what was tied is so no more; here it stays tied."""
    for copy, original in layout.tied(stored).items():
        found = f"{copy} is tied to {original}, and an adapter would part them"
        require(copy not in whole and original not in whole, found, "take it out of what is trained whole")


def save_adapter(model: Model, directory: str | Path, base_name: str | Path) -> None:
    """Write all that is trainable so that PEFT opens it over `base_name`: a directory, or hf:owner/name."""
    directory, layers, tensors = Path(directory), adapted(model), model.state_dict()
    require(bool(layers), "the model has no adapters", "regard.layers.lora.add_adapters(model, LoraConfig()) adds them")
    free = not (directory / "config.json").exists()
    require(free, f"{directory} holds a model", "give the adapter a directory of its own")
    layout, stored = table_of(model)
    named = layout.model_type not in RENAMED
    require(named, f"PEFT has other names for the layers of '{layout.model_type}'", "merge the adapters into the model")
    trained = [name for name, source in stored.items() if not {*source.ours}.isdisjoint(trainable(model))]
    modules = sorted({name.split(".")[0] if HEADS.match(name) else name.rpartition(".")[0] for name in trained})
    whole = [name for name in [*stored, *layout.tied(stored)] if any(f"{module}." in name for module in modules)]
    refuse_tied(layout, stored, whole)
    theirs = {name: stored[name].edit.join([tensors[ours] for ours in stored[name].ours]) for name in whole}
    ranks, alphas, turned = {}, {}, False
    for name, source in stored.items():
        if any(part.removesuffix(".weight") in layers for part in source.ours):
            module, turned = name.removesuffix(".weight"), not source.edit.is_plain
            theirs[module + A], theirs[module + B], scale = in_one(source, layers, tensors)
            ranks[module] = len(theirs[module + A])
            alphas[module] = scale * ranks[module]
    (rank, *_), (alpha, *_) = ranks.values(), alphas.values()
    ending = (task for end, task in TASKS.items() if layout.architecture_for(model.config).endswith(end))
    settings = {
        "peft_type": "LORA", "base_model_name_or_path": str(base_name), "inference_mode": True, "bias": "none",
        "task_type": None if any(map(HEADS.match, stored.keys() - whole)) else next(ending, None),
        "r": rank, "rank_pattern": {module: own for module, own in ranks.items() if own != rank},
        "lora_alpha": alpha, "alpha_pattern": {module: own for module, own in alphas.items() if own != alpha},
        "lora_dropout": next(iter(layers.values())).lora_dropout.p, "fan_in_fan_out": turned,
        "target_modules": list(ranks), "modules_to_save": modules or None,
    }  # fmt: skip
    held = {PREFIX + name: tensor.contiguous() for name, tensor in theirs.items()}
    write_bytes(directory / FILE, save(held, {"format": "pt"}))
    if labels := getattr(model.config, "labels", ()):
        write_json(directory / LABELS, {str(i): label for i, label in enumerate(labels)})
    write_json(directory / CONFIG, settings)


def in_one(
    source: Source, layers: Mapping[str, Adapted], tensors: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor, float]:
    """A, B and the scale of our layers, mostly one, that they keep in one matrix; not all may have an adapter."""
    parts = [name.removesuffix(".weight") for name in source.ours]
    own = [part for part in parts if part in layers]
    scale, a = layers[own[0]].scale, torch.cat([tensors[f"{part}.lora_a"] for part in own])
    blocks = {part: a.new_empty(len(tensors[f"{part}.weight"]), 0) for part in parts}
    blocks |= {part: tensors[f"{part}.lora_b"] * (layers[part].scale / scale) for part in own}
    return a, torch.block_diag(*blocks.values()), scale
