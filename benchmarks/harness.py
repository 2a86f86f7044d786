"""Fair timing on a noisy machine: contestants take turns inside one run, and only their ratio counts."""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

RESULTS = Path(__file__).parent / "results"


def take_turns(
    contestants: Mapping[str, Callable[[], Any]], *, rounds: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """Seconds of every call, round by round; the order turns around each round so that nobody always goes first."""
    for _ in range(warm_up):
        for run in contestants.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        names = list(contestants)
        for name in names if number % 2 == 0 else reversed(names):
            start = time.perf_counter()
            contestants[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(theirs: list[float], ours: list[float]) -> tuple[float, float, float]:
    """How many times faster ours is: median over the rounds, and the middle half of them."""
    ratios = sorted(t / o for t, o in zip(theirs, ours, strict=True))
    quarter = len(ratios) // 4
    return statistics.median(ratios), ratios[quarter], ratios[-1 - quarter]


def shown(theirs: list[float], ours: list[float]) -> str:
    middle, low, high = ratio(theirs, ours)
    return f"{middle:.2f}x ({low:.2f} to {high:.2f})"


def paired(ours: list[dict[str, np.ndarray]], theirs: list[dict[str, np.ndarray]]) -> tuple[float, float, float]:
    """How many points ours is ahead, by test set -> which rows each seed has right: the mean over sets and seeds.

    Beside it what 95 % of the resamplings of rows and seeds lie between. A row is compared with itself, seed by seed.
    """
    chance = np.random.default_rng(12345)
    samples = []
    for number in range(1001):
        seeds = np.arange(min(len(ours), len(theirs)))
        some = seeds if number == 0 else chance.choice(seeds, len(seeds))
        gaps = []
        for name in ours[0]:
            gap = np.mean([ours[i][name].astype(float) - theirs[i][name] for i in some], axis=0)
            gaps.append((gap if number == 0 else gap[chance.integers(len(gap), size=len(gap))]).mean())
        samples.append(100 * float(np.mean(gaps)))
    return samples[0], *np.percentile(samples[1:], [2.5, 97.5]).tolist()


def machine(packages: tuple[str, ...]) -> dict[str, Any]:
    versions = {}
    for package in ("torch", *packages):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    return {
        "date": date.today().isoformat(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": versions,
    }


def report(name: str, header: list[str], rows: list[list[str]], data: dict[str, Any], note: str = "") -> None:
    """A table for people, a dated file in results/, and one JSON line last for programs."""
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    table += ["| " + " | ".join(row) + " |" for row in rows]
    script = f"benchmarks/{Path(sys.argv[0]).name}"
    command = " ".join(["python", script, *(Path(word).name for word in sys.argv[1:])])  # no folders of this machine
    lines = [f"# {name}, {data['machine']['date']}", "", *table, "", *([note, ""] if note else [])]
    lines += [f"Command: `{command}`", "", "```json", json.dumps(data), "```", ""]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}_{data['machine']['date']}.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(table))
    print(f"written to {path}", file=sys.stderr)
    print(json.dumps(data))
