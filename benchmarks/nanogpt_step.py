"""How long is a training step, beside one written plainly in the manner of nanoGPT?

    python benchmarks/nanogpt_step.py [--steps 60] [--layers 4 --heads 4 --width 128 --block 64 --rows 12]

Both: a GPT-2 of these sizes over random letters, tied output, no dropout, AdamW with the same betas, clipping at 1.
The baseline is what one writes first, in float32 without a compiler: queries, keys and values by one product,
PyTorch's fused attention, cross-entropy over all logits, PyTorch's AdamW and clip_grad_norm_ as they come. Ours is the
step of a run, reading the data included. They take turns; wall and processor time are both told, since on a shared
machine only the second is one's own.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import machine, ratio, report
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Steps
from regard.training.folder import run_of
from regard.training.loop import Trainer
from regard.training.run import assemble

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;:!?'-&$3\n"
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
    def __init__(self, vocabulary: int, sizes: argparse.Namespace) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, sizes.width), nn.Embedding(sizes.block, sizes.width)
        self.layers = nn.Sequential(*(Layer(sizes.width, sizes.heads) for _ in range(sizes.layers)))
        self.norm, self.out = nn.LayerNorm(sizes.width), nn.Linear(sizes.width, vocabulary, bias=False)
        self.out.weight = self.token.weight

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.token(ids) + self.place(torch.arange(ids.size(1)))
        logits = self.out(self.norm(self.layers(x)))
        return functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def plain_step(ids: np.ndarray, vocabulary: int, sizes: argparse.Namespace) -> Callable[[], None]:
    model = Plain(vocabulary, sizes)
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


def our_trainer(folder: Path, sizes: argparse.Namespace, precision: str) -> Trainer:
    chance = np.random.default_rng(0)
    text = "".join(chance.choice(list(LETTERS), 100_000))
    (folder / "letters.txt").write_text(text, encoding="utf-8")
    shape = {"n_layers": sizes.layers, "n_heads": sizes.heads, "d_model": sizes.width, "d_ff": 4 * sizes.width}
    settings = {
        "task": "generate",
        "data": {"train": [str(folder / "letters.txt")], "pack": "files", "hold_out": 0.0, "max_len": sizes.block},
        "text": {"kind": "char", "vocab_size": 128, "min_frequency": 1, "byte_fallback": False},
        "model": {"preset": "char-gpt", "activation": "gelu", "dropout": 0.0, "attn_dropout": 0.0, **shape},
        "train": {"epochs": 0, "steps": 10**6, "batch_tokens": sizes.block * sizes.rows, "lr": LR, "beta2": BETAS[1],
                  "weight_decay": DECAY, "precision": precision},
    }  # fmt: skip
    return assemble(run_of(settings, ()), folder / precision, [])


def our_step(trainer: Trainer, sizes: argparse.Namespace) -> Callable[[], None]:
    steps = Steps(trainer.lengths, budget=sizes.block * sizes.rows, seed=1).steps(trainer.progress.position)
    trainer.trained.train()

    def step() -> None:
        trainer._step(next(steps)[0])
        trainer.progress.step += 1

    return step


def timed(contestants: dict[str, Callable[[], None]], rounds: int) -> dict[str, dict[str, list[float]]]:
    for run in contestants.values():
        for _ in range(3):
            run()
    spent: dict[str, dict[str, list[float]]] = {name: {"wall": [], "processor": []} for name in contestants}
    for number in range(rounds):
        for name in contestants if number % 2 == 0 else reversed(contestants):
            wall, own = time.perf_counter(), time.process_time()
            contestants[name]()
            spent[name]["wall"].append(time.perf_counter() - wall)
            spent[name]["processor"].append(time.process_time() - own)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, usual in {"steps": 60, "layers": 4, "heads": 4, "width": 128, "block": 64, "rows": 12}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    kinds = ("fp32", "bf16") if torch.ops.mkldnn._is_mkldnn_bf16_supported() else ("fp32",)  # emulated, it is slow
    with tempfile.TemporaryDirectory() as name:
        trainers = {kind: our_trainer(Path(name), options, kind) for kind in kinds}
        vocabulary = trainers["fp32"].model.config.vocab_size
        ids = np.random.default_rng(0).integers(vocabulary, size=100_000).astype(np.uint16)
        contestants = {"plain": plain_step(ids, vocabulary, options)}
        contestants |= {f"ours, {kind}": our_step(trainer, options) for kind, trainer in trainers.items()}
        spent = timed(contestants, options.steps)
    rows = []
    for name, found in spent.items():
        times = [f"{np.median(found[kind]) * 1e3:.1f} ms" for kind in ("wall", "processor")]
        ratios = [
            "{:.2f}x ({:.2f} to {:.2f})".format(*ratio(spent["plain"][kind], found[kind]))
            for kind in ("wall", "processor")
        ]
        rows.append([name, *times, *ratios])
    header = ["step", "wall", "processor", "faster, wall", "faster, processor"]
    sizes = f"{options.layers} layers, {options.heads} heads, width {options.width}"
    note = f"{sizes}, {options.rows} rows of {options.block}; medians, and the middle half of the rounds."
    report("nanogpt_step", header, rows, {"machine": machine(()), "sizes": vars(options), "seconds": spent}, note)


if __name__ == "__main__":
    main()
