"""Attention weights of any layer, head and kind, computed again by the readable twin when they are asked for."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from regard.inspection.alignment import Alignment
from regard.inspection.capture import packed
from regard.inspection.reading import Call, Kind, Reading, watching
from regard.layers.attention import MultiHeadAttention, readable

SIDE = 32
"Rows and columns of a small picture."


@torch.no_grad()
def layers_of(reading: Reading, kind: Kind, layers: Sequence[int] | None = None) -> Iterator[Tensor]:
    """The weights (H, T, S) of one layer after the other, of all where none is named."""
    reading.check(kind)
    if reading.is_recurrent:
        yield _looked_back(reading)[None].float().cpu()
        return
    chosen = range(reading.n_layers(kind)) if layers is None else layers
    modules = {str(layer): reading.module(kind, layer) for layer in chosen}
    with watching(modules) as calls:
        reading.run()
    for name, module in modules.items():
        yield recomputed(module, calls[name][0])[1][0].float().cpu()


def stacked(reading: Reading, kind: Kind, layers: Sequence[int] | None = None) -> Tensor:
    """The same in one tensor (L, H, T, S). Layer by layer, since all heads of a long text are large to have twice."""
    found = layers_of(reading, kind, layers)
    first = next(found)
    n_layers = reading.n_layers(kind) if layers is None else len(layers)
    whole = first.new_empty(n_layers, *first.shape)
    whole[0] = first
    for at, each in zip(range(1, n_layers), found, strict=True):
        whole[at] = each
    return whole


def recomputed(module: MultiHeadAttention, call: Call) -> tuple[Tensor, Tensor]:
    """Outputs of the heads (B, H, T, K) and weights (B, H, T, S), from the arguments of a call."""
    q, k, v, mask = call.args
    return readable(q, k, v, mask, scale=module.scale, bias=call.options.get("bias"))


def _looked_back(reading: Reading) -> Tensor:
    with watching({"attention": reading.model.decoder.attention}) as calls:
        reading.run()
    return torch.cat([call.output[1][0] for call in calls["attention"]])  # (T, S), one call or one a token


def attention(reading: Reading, kind: Kind, layer: int | None = None, head: int | None = None) -> Tensor:
    """Weights (T, S), each row with the sum 1; the average of all layers or heads where none is named."""
    reading.check(kind, layer, head)
    found = stacked(reading, kind, None if layer is None else [layer])  # (L, H, T, S)
    return found.mean((0, 1)) if head is None else found[:, head].mean(0)


def alignment(reading: Reading, kind: Kind, layer: int | None = None, head: int | None = None) -> Alignment:
    """The same with the names of rows and columns."""
    weights = attention(reading, kind, layer, head)
    title = f"{described(kind)}, {place(reading, kind, layer, head)}"
    return Alignment(reading.queries(kind).names, reading.keys(kind).names, weights, title)


def payload(reading: Reading, kind: Kind, layer: int | None = None, head: int | None = None) -> dict[str, Any]:
    """Of a capture: `queries` and `keys` name the lists of tokens that stand beside it."""
    weights = packed(attention(reading, kind, layer, head))
    return {"type": "attention", **sides(reading, kind), "layer": layer, "head": head, "weights": weights}


def overview(reading: Reading, kind: Kind, found: Tensor | None = None) -> dict[str, Any]:
    """Of a capture: all heads as small pictures, to choose from; 255 is all of a row's attention.

    Long texts are pooled to `SIDE` tokens, of each cell the largest weight. `found` are the weights, if they are known.
    """
    found = stacked(reading, kind) if found is None else found  # (L, H, T, S)
    size = [min(side, SIDE) for side in found.shape[2:]]
    pooled = adaptive_max_pool2d(found, size)
    weights = packed((pooled * 255).round().clamp(0, 255), "u8")
    return {"type": "heads overview", **sides(reading, kind), "weights": weights}


def sides(reading: Reading, kind: Kind) -> dict[str, Any]:
    """What tells the heads of this kind apart."""
    queries = {"encoder": "source", "decoder": "target", "cross": "written" if reading.written else "target"}[kind]
    shape = {"n_layers": reading.n_layers(kind), "n_heads": reading.n_heads(kind)}
    shape["n_kv_heads"] = shape["n_heads"] if reading.is_recurrent else reading.module(kind, 0).n_kv_heads
    return {"kind": kind, "queries": queries, "keys": "target" if kind == "decoder" else "source", **shape}


def averaged(reading: Reading, kind: Kind) -> str:
    """What `attention` averages where no layer and no head is named."""
    if reading.is_recurrent:
        return "attention of the decoder"
    shape = {"layer": reading.n_layers(kind), "head": reading.n_heads(kind)}
    return "mean attention of " + " x ".join(f"{count} {noun}{'s' * (count != 1)}" for noun, count in shape.items())


def described(kind: Kind) -> str:
    return {
        "encoder": "self-attention of the encoder",
        "decoder": "self-attention of the decoder",
        "cross": "attention of the decoder to the source",
    }[kind]


def place(reading: Reading, kind: Kind, layer: int | None, head: int | None) -> str:
    """Layers and heads count from 0, as in the code and in most papers about heads."""
    counts = {"layer": (layer, reading.n_layers(kind)), "head": (head, reading.n_heads(kind))}
    parts = [f"mean of {n} {noun}s" if at is None else f"{noun} {at}" for noun, (at, n) in counts.items()]
    return " ".join(parts) if None not in (layer, head) else ", ".join(parts)
