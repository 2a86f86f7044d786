"""What a model is made of: parameters by part, memory, work per token, and whether it fits here."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from regard.layers.head import Unembed
from regard.machine import memory_limit_bytes
from regard.models.base import Model

PARTS: dict[str, str] = {
    "cross-attention": r"\.cross\.",
    "attention": r"\.attn\.|\.attention\.|\.combine\.",
    "feed-forward": r"\.ffn\.",
    "recurrence": r"recurrence|weight_[ih]h|bias_[ih]h",
    "norms": r"norm\.(weight|bias)$",
    "positions": r"position|relative\.table",
    "token embedding": r"embed\.|source\.|target\.",
    "heads": r"heads|unembed|pooler|classify|output",
}
"The first pattern that a parameter's name holds decides its part."

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
    """Works on a model without memory (device `meta`) as well."""
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = next((part for part, pattern in PARTS.items() if re.search(pattern, name)), "other")
        parts[part] = parts.get(part, 0) + parameter.numel()
    n = model.n_parameters
    config = model.config
    n_layers = config.n_layers + (getattr(config, "n_decoder_layers", None) or 0)
    return Summary(
        family=type(model).__name__,
        layout=config.layout,
        n_parameters=n,
        parts=dict(sorted(parts.items(), key=lambda item: -item[1])),
        bytes_by_precision={"float32": 4 * n, "bfloat16": 2 * n, "int8": n},
        training_bytes=ADAM_BYTES * n,
        flops_per_token=2 * _matrix_weights(model),
        attention_flops_per_token=4 * n_layers * getattr(config, "n_heads", 0) * getattr(config, "head_width", 0),
        memory_here=memory_limit_bytes(),
        choices=_choices(config),
    )


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


def _choices(config: Any) -> dict[str, Any]:
    """The configuration without what is unset and without long lists."""
    values = {name: getattr(config, name) for name in config.__dataclass_fields__}
    short = {name: value for name, value in values.items() if value not in (None, (), False, 0.0)}
    return {
        name: value if not isinstance(value, tuple) or len(value) < 8 else f"{len(value)} names"
        for name, value in short.items()
    }


def human(count: float, unit: str = "") -> str:
    """1234567 -> '1.23 M': three significant digits and a letter."""
    for letter, size in (("T", 1e12), ("G" if unit else "B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {letter}{unit}"
    return f"{count:.0f} {unit}".strip()
