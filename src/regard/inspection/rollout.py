"""Attention rollout (Abnar and Zuidema 2020): how much of each input token is in each output, through all layers.

A layer passes on half of what it had, by the residual, and half of what it attended to; the layers' matrices are
multiplied. It is a rough account: it knows nothing of values, feed-forward networks and norms.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from regard.config import require
from regard.inspection.attention import layers_of
from regard.inspection.capture import packed
from regard.inspection.reading import Kind, Reading

Fusion = Literal["mean", "max", "min"]


def rollout(reading: Reading, kind: Kind, *, fusion: Fusion = "mean", discard: float = 0.0) -> Tensor:
    """(T, T), rows with the sum 1. `fusion` makes one matrix of the heads; `discard` drops a layer's least weights.

    Max, min and discarding are of later practice with images; the paper has the mean.
    """
    require(kind != "cross", "rollout follows one stack of layers", "ask for the encoder or the decoder")
    require(0.0 <= discard < 1.0, f"discard is {discard}", "expected a share from 0 to below 1")
    total = torch.eye(len(reading.queries(kind)))
    for heads in layers_of(reading, kind):
        total = _mixed(heads, fusion, discard) @ total
    return total


def _mixed(heads: Tensor, fusion: Fusion, discard: float) -> Tensor:
    """(H, T, T) weights of a layer -> (T, T) with the residual."""
    fused = heads.mean(0) if fusion == "mean" else (heads.amax(0) if fusion == "max" else heads.amin(0))
    if discard:
        least = fused.flatten().kthvalue(max(1, int(fused.numel() * discard))).values
        fused = fused.masked_fill(fused <= least, 0.0)
    mixed = fused + torch.eye(len(fused))
    return mixed / mixed.sum(-1, keepdim=True)


def payload(reading: Reading, kind: Kind, *, fusion: Fusion = "mean", discard: float = 0.0) -> dict[str, Any]:
    """Of a capture; for an image with its grid, on which all but the leading tokens stand."""
    grid = {"grid": list(reading.model.config.grid)} if reading.pixels is not None else {}
    weights = packed(rollout(reading, kind, fusion=fusion, discard=discard))
    return {"type": "rollout", "kind": kind, "fusion": fusion, "discard": discard, **grid, "weights": weights}


def on_grid(reading: Reading, weights: Tensor) -> Tensor:
    """(rows, columns) of the patches, from the row of one token (S)."""
    grid: tuple[int, int] = reading.model.config.grid
    require(len(weights) >= grid[0] * grid[1], "these tokens are no patches", "latents stand nowhere on a picture")
    return weights[-grid[0] * grid[1] :].view(grid)
