"""Does a teacher help? DeiT beside the same ViT without one, picture by picture of the test set, in pairs of seeds.

    regard train conv-fashion --out runs/conv-fashion
    regard train deit-fashion --out RUNS/deit-fashion-1 [--set seed=2 for -2]
    regard train vit-fashion  --out RUNS/vit-fashion-1  --set train.epochs=12 --set train.lr=5e-4 --set data.erase=0 \\
        --set model.dropout=0 --set data.hold_out=0.05 (as the other is trained)
    python benchmarks/distillation.py RUNS/vit-fashion-? RUNS/deit-fashion-? [--teacher runs/conv-fashion]

Runs of one number are a pair. All must have been trained for as many steps.
"""

import argparse
from pathlib import Path

import numpy as np
from harness import machine, paired, report

from regard.data.corpus import read_rows
from regard.tasks.load import load
from regard.training.folder import RUN_FILE, read_run


def right(folder: Path) -> np.ndarray:
    """For each picture of the run's test set, whether it is recognised."""
    data, recognise = read_run(folder / RUN_FILE).data, load(folder / "model")
    rows = list(read_rows([Path(name) for name in data.test]))
    found = recognise([row[0].encode("latin-1") for row in rows])
    names = [data.names.get(label, label) for _, label in rows]
    return np.array([each.label == name for each, name in zip(found, names, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--teacher", type=Path)
    options = parser.parse_args()
    ways = {way: sorted(run for run in options.runs if run.name.startswith(way)) for way in ("vit", "deit")}
    numbers = [[run.name.rpartition("-")[2] for run in runs] for runs in ways.values()]
    assert numbers[0] == numbers[1], "each number needs a vit and a deit"
    steps = {read_run(run / RUN_FILE).train.epochs for run in options.runs}
    assert len(steps) == 1, f"they were trained for {steps} epochs"
    found = {way: [{"test": right(run)} for run in runs] for way, runs in ways.items()}
    gap, low, high = paired(found["deit"], found["vit"])
    scores = {way: [100 * float(each["test"].mean()) for each in runs] for way, runs in found.items()}
    rows = [[way, f"{np.mean(each):.2f}", ", ".join(f"{one:.2f}" for one in each)] for way, each in scores.items()]
    if options.teacher:
        rows.append(["the teacher", f"{100 * right(options.teacher).mean():.2f}", ""])
    note = f"DeiT over ViT: {gap:+.2f} points (95 % of resamplings of pictures and seeds: {low:+.2f} to {high:+.2f}); "
    note += f"{steps.pop()} epochs each."
    data = {"machine": machine(()), "scores": scores, "gap": gap, "low": low, "high": high}
    report("distillation", ["model", "accuracy", "seeds"], rows, data, note)


if __name__ == "__main__":
    main()
