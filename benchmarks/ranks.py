"""Do two ranks compute what one does? The same run by the command itself, alone and under torchrun.

    python benchmarks/ranks.py DATA/multi30k_de_en

Every run is `regard train` with one thread a rank, float32 and dropout; compared are the weights of its last
checkpoint. Adam makes a whole step of any gradient, however small. So where sums are taken in another order (an uncut
step, four ranks, a share whose last numbers the fused optimizer rounds otherwise), single weights whose gradient is
nearly zero go another way, and the loss hardly feels it. A key's bias stands apart: softmax does not feel it at all.
An uncut step draws its dropout in one piece, so that row differs in more than rounding.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from harness import machine, report
from torch import Tensor

from regard.config import to_toml
from regard.runlog import read_log
from regard.training import checkpoint

STEPS = 20
RUN: dict[str, Any] = {
    "model": {"preset": "transformer-small"},
    "train": {"batch_tokens": 2_000, "warmup": 10, "precision": "fp32", "average": 1},
    "valid": {"every": 1_000},
}


class Case(NamedTuple):
    what: str
    parts: int
    "That a step is cut into (train.accumulate)."
    sittings: list[tuple[int, str, int]]
    "One after the other: ranks, how they share, up to which of twenty steps."
    against: int | None = None
    "The case that it is compared with."
    words: int = 8_000
    "Of the vocabulary."


CASES = [
    Case("1 rank, 2 parts", 2, [(1, "none", 20)]),
    Case("2 ranks, DDP", 2, [(2, "ddp", 20)], 0),
    Case("2 ranks, FSDP2", 2, [(2, "fsdp", 20)], 0),
    Case("2 ranks FSDP2, then 1, then 2 DDP", 2, [(2, "fsdp", 7), (1, "none", 14), (2, "ddp", 20)], 0),
    Case("1 rank, uncut", 1, [(1, "none", 20)], 0),
    Case("1 rank, 4 parts", 4, [(1, "none", 20)]),
    Case("4 ranks, DDP", 4, [(4, "ddp", 20)], 5),
    Case("4 ranks, FSDP2", 4, [(4, "fsdp", 20)], 5),
    Case("1 rank, 2 parts, 7,001 words", 2, [(1, "none", 20)], None, 7_001),
    Case("2 ranks, FSDP2, 7,001 words", 2, [(2, "fsdp", 20)], 8, 7_001),
]


class Found(NamedTuple):
    weights: dict[str, Tensor]
    loss: float
    "Of the last step."


def train(home: Path, out: Path, size: int, settings: list[str]) -> None:
    """`regard train`, or `regard resume` where the run has begun, on so many ranks."""
    verb = ["resume", str(out)] if (out / "run.toml").exists() else ["train", str(home / "run.toml"), "--out", str(out)]
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"] if size > 1 else []
    command = [sys.executable, *launch, "-m", "regard", *verb, *(f"--set={setting}" for setting in settings)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(home: Path, number: int) -> Found:
    """All sittings of a case have one schedule, which does not look ahead."""
    case, out = CASES[number], home / f"case-{number}"
    for size, kind, end in case.sittings:
        keys = {
            "train.parallel": kind,
            "train.steps": end,
            "train.accumulate": case.parts,
            "text.vocab_size": case.words,
        }
        train(home, out, size, [f"{key}={value}" for key, value in keys.items()])
    weights = checkpoint.average([checkpoint.path_of(out / "checkpoints", STEPS)])
    return Found(weights, [event["loss"] for event in read_log(out / "log.jsonl") if event["kind"] == "step"][-1])


def largest(one: Found, other: Found, *, keys: bool) -> float:
    names = [name for name in one.weights if name.endswith(".k.bias") == keys]
    return max(float((one.weights[name] - other.weights[name]).abs().max()) for name in names)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    rows, results = [], []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        files = [str((options.data / f"train.{side}.gz").absolute()) for side in ("de", "en")]
        (home / "run.toml").write_text(to_toml(RUN | {"data": {"train": files}}), encoding="utf-8")
        found = [run(home, number) for number in range(len(CASES))]
    for case, here in zip(CASES, found, strict=True):
        if case.against is None:
            continue
        base = found[case.against]
        numbers = [largest(base, here, keys=False), largest(base, here, keys=True), abs(here.loss / base.loss - 1)]
        rows.append([case.what, CASES[case.against].what, *(f"{number:.1e}" if number else "0" for number in numbers)])
        results.append(
            dict(zip(("case", "against", "weights", "key_biases", "loss"), [*rows[-1][:2], *numbers], strict=True))
        )
    size = sum(tensor.numel() for tensor in found[0].weights.values())
    report(
        "ranks",
        ["run", "against", "largest difference of a weight", "of a key's bias", "of the loss, relative"],
        rows,
        {"machine": machine(()), "steps": STEPS, "parameters": size, "results": results},
        f"After {STEPS} steps of transformer-small ({size / 1e6:.1f} M parameters, dropout 0.1, AdamW, float32, clipped"
        " at 1, one thread a rank, gloo, all ranks on one machine). The same data, seed and global batch;"
        " the uncut step draws its dropout in one piece, the others part by part.",
    )


if __name__ == "__main__":
    main()
