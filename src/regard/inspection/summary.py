"""What a model is made of: parameters by part, memory, work per token, and whether it fits here."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from regard.layers.head import Unembed
from regard.machine import memory_limit_bytes
from regard.models.base import Model, without_memory
from regard.models.registry import FAMILIES

PARTS: dict[str, str] = {
    "cross-attention": r"\.cross\.",
    "attention": r"\.attn\.|\.attention\.|\.combine\.",
    "feed-forward": r"\.ffn\.",
    "recurrence": r"recurrence|weight_[ih]h|bias_[ih]h",
    "norms": r"norm\.(weight|bias)$",
    "positions": r"position|relative\.table",
    "token embedding": r"embed\.|source\.|target\.|^vectors|^contexts|^latents",
    "convolutions": r"body\.",
    "output heads": r"heads|unembed|pooler|classify|output|^tags|^mix",
}
"The first pattern that a parameter's name holds decides its part."

MATTERS: dict[str, set[str]] = {
    "n_buckets": {"relative"},
    "max_distance": {"relative"},
    "rope_theta": {"rotary"},
    "rope_scaling": {"rotary"},
    "position_offset": {"learned"},
    "labels": {"classify", "tag", "teacher", "classifier"},
    "pooled_heads_dropout": {"classify", "tag", "span", "next_sentence"},
    "tie": {"masked_lm", "language_model", "translator"},
    "attention": {"translator"},
}
"Choices that have an effect only with one of these positions, heads or kinds of model."

ADAM_BYTES = 16
"Training in float32: weight, gradient and Adam's two averages, four bytes each."


@dataclass(frozen=True)
class Summary:
    family: str
    layout: str
    n_parameters: int
    parts: dict[str, int]
    "Parameters by part."
    bytes_by_precision: dict[str, int]
    training_bytes: int
    flops_per_token: int
    "Forward: two per weight of every matrix that a token is multiplied with. Attention itself is not in it."
    attention_flops_per_token: int
    "What attention adds for each token of context."
    memory_here: int | None
    choices: dict[str, Any]

    @property
    def fits(self) -> bool:
        return self.memory_here is None or self.bytes_by_precision["float32"] < self.memory_here

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"fits": self.fits}


def summarise(model: Model) -> Summary:
    """Of the model as its configuration builds it, whatever its weights have become (joined, in eight bits, absent)."""
    with without_memory():
        model = type(model)(model.config)
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = next((part for part, pattern in PARTS.items() if re.search(pattern, name)), "other")
        parts[part] = parts.get(part, 0) + parameter.numel()
    n = model.n_parameters
    config = model.config
    n_layers = getattr(config, "n_layers", 0) + (getattr(config, "n_decoder_layers", None) or 0)
    return Summary(
        family=family_of(config.layout),
        layout=config.layout,
        n_parameters=n,
        parts=dict(sorted(parts.items(), key=lambda item: -item[1])),
        bytes_by_precision={"float32": 4 * n, "bfloat16": 2 * n, "int8": n},
        training_bytes=ADAM_BYTES * n,
        flops_per_token=2 * _matrix_weights(model),
        attention_flops_per_token=4 * n_layers * getattr(config, "n_heads", 0) * getattr(config, "head_width", 0),
        memory_here=memory_limit_bytes(),
        choices=choices(config),
    )


def family_of(layout: str) -> str:
    """The family that `regard list` shows the layout's sizes under: one wiring may serve several."""
    layouts = {preset.layout: name for name, family in FAMILIES.items() for preset in family.presets.values()}
    return layouts.get(layout, layout)


def _matrix_weights(model: nn.Module) -> int:
    total = 0
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            total += module.weight.numel()
        elif isinstance(module, nn.RNNBase):
            total += sum(p.numel() for name, p in module.named_parameters() if name.startswith("weight"))
        elif isinstance(module, Unembed):
            total += module.vocab_size * module.d_model
    return total


def choices(config: Any) -> dict[str, Any]:
    """The configuration without what is unset, what has no effect in this model, and long lists."""
    values = {name: getattr(config, name) for name in config.__dataclass_fields__ if name != "layout"}
    if "patch_size" in values and "n_decoder_layers" not in values:  # an image has as many places as patches
        del values["max_len"]
    if "position" in values:
        values["position"] = position_of(config)
    heads = values.get("heads", (values.get("head", values.get("kind", "translator")),))
    idle = {name for name, cases in MATTERS.items() if cases.isdisjoint({values.get("position"), *heads})}
    return {
        name: value if not isinstance(value, tuple) or len(value) < 8 else f"{len(value)} names"
        for name, value in values.items()
        if name not in idle and value not in (None, ()) and (value or name.endswith("_id"))  # a token may be number 0
    }


def position_of(config: Any) -> str:
    """Where patches are embedded, their positions are learned with them and the stack adds none."""
    return "learned" if hasattr(config, "patch_size") else config.position


def human(count: float, unit: str = "") -> str:
    """1234567 -> '1.23 M': three significant digits and a letter."""
    for letter, size in (("T", 1e12), ("G" if unit else "B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {letter}{unit}"
    return f"{count:.0f} {unit}".strip()
