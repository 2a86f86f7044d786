"""LoRA (Hu et al. 2021): the weights stay as they are, and two narrow matrices learn what to add to them.

    x ──► W x + b + scale · B A dropout(x)

A layer with an adapter stays the object that it was, and its weight keeps its name: whoever holds, saves or shards the
model finds two parameters more. Only its class changes, and changes back when B A is added into W.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config import require
from regard.errors import pick
from regard.layers.dropout import Dropout
from regard.layers.short import ShortWeight

MAX_RANK = 2**14


@dataclass(frozen=True)
class LoraConfig:
    rank: int = 8
    "Rows of A and columns of B: how much can be learnt."
    alpha: float = 16.0
    "Over the rank, this is the scale of what is added."
    dropout: float = 0.0
    "Share of numbers dropped before A."
    targets: tuple[str, ...] = ("q", "v")
    "Linear layers that get an adapter, by the last part of their names: q k v o up down gate."
    whole: tuple[str, ...] = ()
    "Parts that are trained as they are beside the adapters: heads.classify, pooler."

    def __post_init__(self) -> None:
        require(0 < self.rank <= MAX_RANK, f"rank is {self.rank}", f"expected 1 to {MAX_RANK:,}, for example 8")
        require(0 < self.alpha < math.inf, f"alpha is {self.alpha}", "expected a positive number, for example 16")
        require(0 <= self.dropout < 1, f"dropout is {self.dropout}", "expected a share from 0 up to, not including, 1")
        require(bool(self.targets), "there are no targets", 'name the layers that get adapters, for example ["q", "v"]')


class Adapted(nn.Linear):
    """A linear layer with an adapter: `adapt` makes it, `merge` makes it plain again."""

    plain: type[nn.Linear]
    scale: float
    lora_a: nn.Parameter  # (R, d_in)
    lora_b: nn.Parameter  # (d_out, R)
    lora_dropout: Dropout

    def forward(self, x: Tensor) -> Tensor:
        narrow = functional.linear(self.lora_dropout(x), self.lora_a) * self.scale  # (..., R)
        return self.plain.forward(self, x) + functional.linear(narrow, self.lora_b)


def adapt(layer: nn.Linear, config: LoraConfig) -> Adapted:
    """Give the layer an adapter that is yet to be filled: A holds anything, B zero."""
    plain, layer.__class__ = type(layer), Adapted
    assert isinstance(layer, Adapted)
    layer.plain, layer.scale = plain, config.alpha / config.rank
    layer.lora_a = nn.Parameter(layer.weight.new_empty(config.rank, layer.in_features))
    layer.lora_b = nn.Parameter(layer.weight.new_zeros(layer.out_features, config.rank))
    layer.lora_dropout = Dropout(config.dropout).train(layer.training)
    return layer


def add_adapters(model: nn.Module, config: LoraConfig) -> None:
    """Freeze the model but for new adapters, which add nothing as yet, and for what is trained whole."""
    require_trainable(model)
    parts = dict(model.named_modules())
    layers: dict[str, list[nn.Linear]] = {}
    for name, layer in parts.items():
        if isinstance(layer, nn.Linear):
            layers.setdefault(name.rpartition(".")[2], []).append(layer)
    chosen = [layer for target in dict.fromkeys(config.targets) for layer in pick(target, layers, "linear layer")]
    both = {*chosen} & {layer for name in config.whole for layer in pick(name, parts, "part of the model").modules()}
    require(not both, f"{len(both)} layers are targets and trained whole", "take them out of targets or of whole")
    for layer in chosen:
        nn.init.kaiming_uniform_(adapt(layer, config).lora_a, a=math.sqrt(5))  # as PEFT, and any fresh linear layer
    freeze(model, config.whole)


def freeze(model: nn.Module, whole: Iterable[str]) -> None:
    """All but the adapters and the parts, or parameters, with these names."""
    kept = tuple(f"{name}." for name in whole)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_" in name or f"{name}.".startswith(kept))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def adapted(model: nn.Module) -> dict[str, Adapted]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, Adapted)}


def require_plain(model: nn.Module) -> None:
    found = f"the model has {len(adapted(model))} layers with adapters"
    require(not adapted(model), found, "merge them first: regard.layers.lora.merge(model)")


def require_trainable(model: nn.Module) -> None:
    require_plain(model)
    short = any(isinstance(getattr(layer, "weight", None), ShortWeight) for layer in model.modules())
    require(not short, "weights in fewer bits cannot be trained", "open the model in fp32 or bf16")


@torch.no_grad()
def merge(model: nn.Module) -> None:
    """Add every adapter into its weight and take it away; all is trainable again, and nothing is slower than before."""
    for layer in adapted(model).values():
        if not layer.weight.is_meta:  # without memory there is nothing to add, and a product takes seconds
            layer.weight.add_(layer.lora_b.float() @ layer.lora_a.float(), alpha=layer.scale)
        layer.__class__ = layer.plain  # type: ignore[assignment]
        del layer.lora_a, layer.lora_b, layer.lora_dropout, layer.plain, layer.scale
    model.requires_grad_(True)
