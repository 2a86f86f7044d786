"""How long is a training step, beside one written plainly in the manner of nanoGPT?

    python benchmarks/nanogpt_step.py [--steps 60] [--layers 4 --heads 4 --width 128 --block 64 --rows 12]

Both: a GPT-2 of these sizes over random letters, tied output, no dropout, AdamW with the same betas, clipping at 1. The
baseline (nanogpt_plain.py) is a process of its own. Ours is the step of a run, reading the data included. They take
turns; wall and processor time are both told, since on a shared machine only the second is one's own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import machine, report, shown
from nanogpt_plain import BETAS, DECAY, LR, clocks

from regard.data.batches import Steps
from regard.training.folder import run_of
from regard.training.loop import Trainer
from regard.training.run import assemble

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;:!?'-&$3\n"
Seconds = dict[str, float]


def plain_step(sizes: dict[str, int]) -> Callable[[], Seconds]:
    """A step of the process that knows only PyTorch."""
    command = [sys.executable, str(Path(__file__).with_name("nanogpt_plain.py")), json.dumps(sizes)]
    env = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}  # which regard sets
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    assert child.stdin is not None
    assert child.stdout is not None
    sent, got = child.stdin, child.stdout

    def step() -> Seconds:
        print(file=sent, flush=True)
        seconds: Seconds = json.loads(got.readline())
        return seconds

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


def our_step(trainer: Trainer, sizes: argparse.Namespace) -> Callable[[], Seconds]:
    steps = Steps(trainer.lengths, budget=sizes.block * sizes.rows, seed=1).steps(trainer.progress.position)
    trainer.trained.train()

    def step() -> Seconds:
        wall, own = clocks()
        trainer._step(next(steps)[0])
        trainer.progress.step += 1
        now, now_own = clocks()
        return {"wall": now - wall, "processor": now_own - own}

    return step


def timed(contestants: dict[str, Callable[[], Seconds]], rounds: int) -> dict[str, dict[str, list[float]]]:
    for run in contestants.values():
        for _ in range(3):
            run()
    spent: dict[str, dict[str, list[float]]] = {name: {"wall": [], "processor": []} for name in contestants}
    for number in range(rounds):
        for name in contestants if number % 2 == 0 else reversed(contestants):
            for kind, seconds in contestants[name]().items():
                spent[name][kind].append(seconds)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, usual in {"steps": 60, "layers": 4, "heads": 4, "width": 128, "block": 64, "rows": 12}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    kinds = ("fp32", "bf16") if torch.ops.mkldnn._is_mkldnn_bf16_supported() else ("fp32",)  # emulated, it is slow
    with tempfile.TemporaryDirectory() as folder:
        trainers = {kind: our_trainer(Path(folder), options, kind) for kind in kinds}
        vocabulary = trainers["fp32"].model.config.vocab_size
        sizes = {**vars(options), "vocabulary": vocabulary, "threads": torch.get_num_threads()}
        contestants = {"plain": plain_step(sizes)}
        contestants |= {f"ours, {kind}": our_step(trainer, options) for kind, trainer in trainers.items()}
        spent = timed(contestants, options.steps)
    rows = []
    for name, found in spent.items():
        times = [f"{np.median(found[kind]) * 1e3:.1f} ms" for kind in ("wall", "processor")]
        rows.append([name, *times, *(shown(spent["plain"][kind], found[kind]) for kind in ("wall", "processor"))])
    header = ["step", "wall", "processor", "faster, wall", "faster, processor"]
    said = f"{options.layers} layers, {options.heads} heads, width {options.width}"
    note = f"{said}, {options.rows} rows of {options.block}; medians, and the middle half of the rounds."
    report("nanogpt_step", header, rows, {"machine": machine(()), "sizes": vars(options), "seconds": spent}, note)


if __name__ == "__main__":
    main()
