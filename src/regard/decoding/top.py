"""The best few of a large vocabulary, which PyTorch's `topk` and `max` look through one number at a time."""

import torch
from torch import Tensor

BLOCK = 64
"Numbers whose largest is found at once; the k largest of all are in the k blocks with the largest."
FEW = 16_000
"Numbers that are looked through sooner than blocks are made of them."


def top(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """What `scores.topk(k)` gives, of (..., V): values and tokens (..., k), best first; NaN counts as the best.

    Of one, it is the first among equals.
    """
    size = scores.size(-1)
    n_blocks = size // BLOCK
    if n_blocks <= 2 * k or scores.numel() <= FEW:
        return best(scores, k)
    whole = scores[..., : n_blocks * BLOCK].unflatten(-1, (n_blocks, BLOCK))
    blocks = best(whole.amax(-1), k)[1]  # (..., k)
    inside = torch.arange(BLOCK, device=scores.device)
    tokens = (blocks[..., None] * BLOCK + inside).flatten(-2)  # (..., k * 64)
    rest = torch.arange(n_blocks * BLOCK, size, device=scores.device).expand(*scores.shape[:-1], -1)
    tokens = torch.cat([tokens, rest], dim=-1)
    values, place = best(scores.gather(-1, tokens), k)
    return values, tokens.gather(-1, place)


def best(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return x.max(-1, keepdim=True) if k == 1 else x.topk(k)
