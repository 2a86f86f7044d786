"""The best few of a large vocabulary, which PyTorch's `topk` and `max` look through one number at a time."""

import torch
from torch import Tensor

from regard.layers.native import Native, native

BLOCK = 64
"Numbers whose largest is found at once; the k largest of all are in the k blocks with the largest."
FEW = 16_000
"Numbers that are looked through sooner than blocks are made of them."
MOST = 64
"So many of the best the compiled library finds by putting each into its place."
ROWS = 16
"Hypotheses whose probabilities are computed at once."


def top_log_probs(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The log-probabilities (n, W, k) of the k likeliest tokens after scores (n, W, V), and the tokens."""
    if (library := compiled(scores, k)) is not None:
        best, tokens = library.top(scores, k, total := scores.new_empty(*scores.shape[:-1], 1))
        return best - total, tokens
    best, tokens = top(scores, k)
    # That of the very best, less what the others lag behind it; all rows at once would be another (n, W, V) in memory.
    rows = zip(scores.flatten(0, 1).split(ROWS), tokens[..., :1].flatten(0, 1).split(ROWS), strict=True)
    first = torch.cat([some.log_softmax(-1).gather(-1, token) for some, token in rows])
    return best - best[..., :1] + first.view(*best.shape[:2], 1), tokens


def log_probs(scores: Tensor) -> Tensor:
    """Of all tokens, and to the bit what `top_log_probs` says of the best."""
    if (library := compiled(scores, 1)) is None:
        return scores.log_softmax(-1)
    library.top(scores, 1, total := scores.new_empty(*scores.shape[:-1], 1))
    return scores - total


def compiled(scores: Tensor, k: int) -> Native | None:
    fits = 0 < k <= MOST and scores.is_cpu and scores.dtype == torch.float32 and scores.numel() > 0
    return native() if fits else None


def top(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """What `scores.topk(k)` gives, of (..., V): values and tokens (..., k), best first; NaN counts as the best.

    Of one, it is the first among equals.
    """
    if (library := compiled(scores, k)) is not None:
        return library.top(scores, k)
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
