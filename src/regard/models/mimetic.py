"""Mimetic initialisation (Trockman and Kolter 2023): attention begins as it looks like after training.

Queries times keys are near the identity, so a patch looks first at patches like itself; where positions are waves,
those are its neighbours. Values times output are near minus the identity. It stands for what few pictures hardly teach.
"""

import torch
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention
from regard.layers.embedding import PatchEmbedding

LOOKING, PASSING = 0.7, 0.4
"How much of the identity, and as much of chance, is in queries times keys, and in values times output."


@torch.no_grad()
def imitate(model: nn.Module, grid: tuple[int, int]) -> None:
    """Over fresh weights; attention whose keys are shared is left as it is."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention) and module.n_kv_heads == module.n_heads:
            _imitate_attention(module.n_heads, *(getattr(module, name).weight for name in "qkvo"))
        if isinstance(module, PatchEmbedding):
            nn.init.normal_(module.project.weight, std=module.project.weight[0].numel() ** -0.5)
            module.position[0, module.n_leading :] = waves(grid, module.position.size(-1))


def _imitate_attention(n_heads: int, q: Tensor, k: Tensor, v: Tensor, o: Tensor) -> None:
    wide = q.size(1)
    for own_q, own_k in zip(q.chunk(n_heads), k.chunk(n_heads), strict=True):  # (K, D)
        left, scale, right = torch.linalg.svd(_mixture(wide, LOOKING, LOOKING))
        own_q.copy_((left * scale.sqrt()).mT[: len(own_q)])
        own_k.copy_((scale.sqrt()[:, None] * right)[: len(own_k)])
    if len(v) == wide:
        left, scale, right = torch.linalg.svd(_mixture(wide, PASSING, -PASSING))
        o.copy_(left * scale.sqrt())
        v.copy_(scale.sqrt()[:, None] * right)


def _mixture(width: int, chance: float, identity: float) -> Tensor:
    return chance * torch.randn(width, width) / width**0.5 + identity * torch.eye(width)


def waves(grid: tuple[int, int], width: int) -> Tensor:
    """(rows · columns, D): sines and cosines of the row, then of the column."""
    rates = 10_000.0 ** -(torch.arange(width // 4) / (width // 4))
    places = torch.cartesian_prod(*(torch.arange(float(side)) for side in grid))  # (rows · columns, 2)
    angles = places[:, :, None] * rates  # (rows · columns, 2, D/4)
    found = torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return nn.functional.pad(found, (0, width - found.size(1)))
