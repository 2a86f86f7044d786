"""Sampling: the next token is drawn, not chosen.

Filters are pure functions from scores to scores; what they refuse becomes -inf, and they always leave at least
one token. Each row draws from a random source of its own, so its text does not depend on its batch mates.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config import require
from regard.decoding.search import Prefix, S, Step, refuse_broken, write


@dataclass(frozen=True)
class SampleSettings:
    temperature: float = 1.0
    "Below 1 the likely becomes likelier; at 0 only the likeliest is left."
    top_k: int | None = None
    "Draw from this many of the likeliest (Fan et al. 2018)."
    top_p: float = 1.0
    "Draw from the fewest that together have this probability (Holtzman et al. 2020)."
    seed: int = 0
    "The same seed gives row i of any batch the same luck."

    def __post_init__(self) -> None:
        require(0 <= self.temperature < math.inf, f"the temperature is {self.temperature}", "expected 0 or more")
        require(self.top_k is None or self.top_k >= 1, f"top-k is {self.top_k}", "expected at least 1")
        require(0 < self.top_p <= 1, f"top-p is {self.top_p}", "expected more than 0 and at most 1")

    def filter(self, scores: Tensor) -> Tensor:
        scores = temper(scores, self.temperature)
        scores = scores if self.top_k is None else keep_top_k(scores, self.top_k)
        return scores if self.top_p == 1 else keep_top_p(scores, self.top_p)


def temper(scores: Tensor, temperature: float) -> Tensor:
    if temperature < torch.finfo(torch.float32).tiny:  # dividing by it would be dividing by zero
        return keep_top_k(scores, 1)
    return (scores - scores.amax(-1, keepdim=True)) / temperature  # the best is 0, so nothing overflows


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """Exactly the k likeliest."""
    best, tokens = scores.topk(min(k, scores.size(-1)))
    return torch.full_like(scores, -torch.inf).scatter(-1, tokens, best)


def keep_top_p(scores: Tensor, p: float) -> Tensor:
    """The fewest tokens that together have at least the probability p."""
    best, tokens = scores.sort(dim=-1, descending=True, stable=True)
    shares = best.softmax(-1)
    before = shares.cumsum(-1) - shares  # the first has nothing before it, and so stays
    return torch.full_like(scores, -torch.inf).scatter(-1, tokens, best.masked_fill(before >= p, -torch.inf))


def sample(
    step: Step[S],
    state: S,
    prompt: Tensor,
    settings: SampleSettings,
    *,
    limit: int,
    end_ids: Collection[int] = (),
    valid: Tensor | None = None,
    prefix: Prefix = (),
    numbers: Sequence[int] | None = None,
) -> Iterator[Tensor]:
    """Yields like `write`. `numbers` are those of the rows, by which they draw, where the batch is a part of more."""
    numbers = range(len(prompt)) if numbers is None else numbers
    luck = torch.stack([uniform(settings.seed, number, limit) for number in numbers])  # (B, limit)

    def choose(scores: Tensor, rows: Tensor, t: int) -> Tensor:
        return draw(settings.filter(scores.float()), luck[rows.cpu(), t])

    return write(choose, step, state, prompt, limit=limit, end_ids=end_ids, valid=valid, prefix=prefix)


def uniform(seed: int, row: int, n: int) -> Tensor:
    """n numbers from 0 to below 1, a function of seed and row alone."""
    # PyTorch's generator reads 32 bits of its seed: a hash spreads both numbers over them.
    digest = hashlib.blake2b(f"{seed} {row}".encode(), digest_size=4).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest))
    return torch.rand(n, generator=generator, dtype=torch.float64)


def draw(scores: Tensor, luck: Tensor) -> Tensor:
    """Where on the stack of all probabilities (B, V) the number (B) falls."""
    refuse_broken(scores.amax(-1))
    # In double precision, where a sum of 100,000 shares is exact enough; not every accelerator has it.
    stack = scores.softmax(-1).cpu().double().cumsum(-1)  # (B, V)
    token = torch.searchsorted(stack, luck[:, None] * stack[:, -1:], right=True)[:, 0]
    return token.to(scores.device)
