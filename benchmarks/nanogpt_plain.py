"""A training step of a GPT as one writes it first, in the manner of nanoGPT: the baseline of nanogpt_step.py.

float32 without a compiler: queries, keys and values by one product, PyTorch's fused attention, cross-entropy over all
logits, PyTorch's AdamW and clip_grad_norm_ as they come. Run as a program it takes a step for each line it is sent and
answers with the seconds, so that nothing of ours, not even how memory is asked for, is at work in it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

BETAS, LR, DECAY = (0.9, 0.99), 1e-3, 0.1


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:2], self.heads, x.size(-1) // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).split(x.size(-1), dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(x.shape))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Plain(nn.Module):
    def __init__(self, sizes: argparse.Namespace) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(sizes.vocabulary, sizes.width), nn.Embedding(sizes.block, sizes.width)
        self.layers = nn.Sequential(*(Layer(sizes.width, sizes.heads) for _ in range(sizes.layers)))
        self.norm, self.out = nn.LayerNorm(sizes.width), nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        self.out.weight = self.token.weight

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.token(ids) + self.place(torch.arange(ids.size(1)))
        logits = self.out(self.norm(self.layers(x)))
        return functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def plain_step(sizes: argparse.Namespace) -> Callable[[], None]:
    ids = np.random.default_rng(0).integers(sizes.vocabulary, size=100_000).astype(np.uint16)
    model = Plain(sizes)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS)

    def step() -> None:
        starts = torch.randint(len(ids) - sizes.block, (sizes.rows,)).tolist()
        x, y = (
            torch.stack([torch.from_numpy(ids[i + d : i + d + sizes.block].astype(np.int64)) for i in starts])
            for d in (0, 1)
        )
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def main() -> None:
    sizes = argparse.Namespace(**json.loads(sys.argv[1]))
    torch.set_num_threads(sizes.threads)
    step = plain_step(sizes)
    for _ in sys.stdin:
        wall, own = clocks()
        step()
        now, now_own = clocks()
        print(json.dumps({"wall": now - wall, "processor": now_own - own}), flush=True)


if __name__ == "__main__":
    main()
