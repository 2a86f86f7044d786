"""Where a translator looked at the source while it wrote each word of the target.

Nothing is kept while translating. Asked for, the target is read once more, the input of the asked layers is
caught on its way, and `readable` computes their weights again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.layers.attention import MultiHeadAttention, readable
from regard.models.recurrent import RecurrentTranslator
from regard.models.transformer import Transformer


@contextmanager
def _caught(modules: Sequence[MultiHeadAttention]) -> Iterator[list[tuple[Any, ...]]]:
    """The arguments of each module's call, in the order of the calls."""
    calls: list[tuple[Any, ...]] = []
    hooks = [module.register_forward_pre_hook(lambda _, args: calls.append(args)) for module in modules]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def cross_attention(model: Transformer, src: Tensor, tgt: Tensor, layers: Sequence[int]) -> Tensor:
    """Weights (layers, H, T, S) with which one text `tgt` (1, T), as the decoder reads it, attends to `src` (1, S)."""
    modules: list[Any] = [model.decoder.blocks[layer].cross for layer in layers]
    with _caught(modules) as calls:
        model.decoder(tgt, memory=model.encode(src), table=model.target_table)
    calls_of = zip(modules, calls, strict=True)
    return torch.cat([readable(q, k, v, mask, scale=module.scale)[1] for module, (q, k, v, mask) in calls_of])


@torch.no_grad()
def attention(model: Any, src: Tensor, tgt: Tensor, layer: int | None = None, head: int | None = None) -> Tensor:
    """Weights (T, S), each row with the sum 1; the average of all layers or heads where none is named."""
    if isinstance(model, RecurrentTranslator):
        _pick(1, layer, "layer"), _pick(1, head, "head")
        return model.attention(src, tgt)[0]
    heads = _pick(model.config.decoder.n_heads, head, "head")
    layers = _pick(model.config.decoder.n_layers, layer, "layer")
    return cross_attention(model, src, tgt, layers)[:, heads].mean((0, 1))


def described(model: Any) -> str:
    """What `attention` averages where no layer and no head is named."""
    if isinstance(model, RecurrentTranslator):
        return "attention of the decoder"
    shape = {"layer": model.config.decoder.n_layers, "head": model.config.decoder.n_heads}
    return "mean attention of " + " x ".join(f"{count} {noun}{'s' * (count != 1)}" for noun, count in shape.items())


def _pick(count: int, asked: int | None, noun: str) -> list[int]:
    if asked is not None and not 0 <= asked < count:
        last = f"{noun}s are 0 to {count - 1}" if count > 1 else f"its only {noun} is 0"
        raise UserError(f"the decoder has no {noun} {asked}", last)
    return list(range(count)) if asked is None else [asked]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Weights (T, S) with the names of their rows and columns."""

    target: tuple[str, ...]
    source: tuple[str, ...]
    weights: Tensor

    def grouped(self, rows: Sequence[int], columns: Sequence[int]) -> "Alignment":
        """Tokens of one word together; both lists say for each token the number of its word.

        What is attended to adds up; what attends is averaged. So each row still has the sum 1.
        """
        merged = torch.zeros(len(rows), columns[-1] + 1).index_add_(1, torch.tensor(columns), self.weights.float())
        averaged = torch.zeros(rows[-1] + 1, merged.size(1)).index_add_(0, torch.tensor(rows), merged)
        averaged /= torch.bincount(torch.tensor(rows))[:, None]
        return Alignment(_joined(self.target, rows), _joined(self.source, columns), averaged)

    def to_dict(self) -> dict[str, Any]:
        rows = [[round(value, 6) for value in row] for row in self.weights.tolist()]
        return {"target": list(self.target), "source": list(self.source), "weights": rows}


def _joined(names: Sequence[str], groups: Sequence[int]) -> tuple[str, ...]:
    words = [""] * (groups[-1] + 1)
    for name, group in zip(names, groups, strict=True):
        words[group] += name
    return tuple(words)
