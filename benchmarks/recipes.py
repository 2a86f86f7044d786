"""What do the shipped recipes reach? Scores finished runs on their own test sets and writes one table.

    regard train minilm-cola --set seed=1 --out RUNS/minilm-cola-1       (each recipe, from a folder that holds data/)
    python benchmarks/recipes.py RUNS/minilm-cola-1 [RUNS/minilm-cola-2 ...] [--beam 4] [--name recipes]

A recipe without a test set is scored on what it held out of its training data; rows are not counted there.
Runs whose folders differ in the number at their end are seeds of one recipe: their mean is shown, and each of them.
Minutes and energy are the run's own count over all its sittings; validation and checkpoints are included.
"""

import argparse
import json
import re
import statistics
from pathlib import Path
from typing import Any

from harness import machine, report

from regard.lab.judging import Asked, judge
from regard.tasks.load import load
from regard.training.folder import LOG_FILE, RUN_FILE, read_run
from regard.weights.store import load_model

SHOWN = 3
"Scores of each task in the table; all of them are in the data below it."


def last_of(folder: Path, kind: str) -> dict[str, Any]:
    lines = (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = next(event for event in map(json.loads, reversed(lines)) if event["kind"] == kind)
    return found


def score(folder: Path, beam: int) -> dict[str, Any]:
    data, end = read_run(folder / RUN_FILE).data, last_of(folder, "end")
    recipe = re.sub(r"-\d$", "", folder.name)
    ran = {"recipe": recipe, "folder": folder.name, "minutes": end["seconds"] / 60, "how": end["how"]}
    return ran | {"energy": end["energy"]} | (tested(folder, data, beam) if data.test else held_out(folder))


def held_out(folder: Path) -> dict[str, Any]:
    found = last_of(folder, "valid")
    scores = {"loss": found["loss"]} | {name: found[name] for name in found["scores"]}
    whole = folder / "model" / "discriminator"
    return {
        "parameters": load_model(whole if whole.is_dir() else folder / "model", device="meta").n_parameters,
        "scores": scores,
        "shown": [f"{name} {value:.3f}" for name, value in scores.items()],
        "signature": "held out",
        "rows": None,
    }


def tested(folder: Path, data: Any, beam: int) -> dict[str, Any]:
    task = load(folder / "model")
    columns = None if data.test[0].endswith(".json") else data.columns or None  # SQuAD's own file has all right answers
    asked = Asked([Path(name) for name in data.test], columns, bootstrap=1000, beam=beam, names=data.names)
    found = judge(task, asked, lambda _: None)
    return {
        "parameters": task.model.n_parameters,
        "scores": {each.name: each.value for each in found.scores},
        "shown": [str(each) for each in found.scores],
        "signature": found.scores[0].signature,
        "rows": found.n_rows,
    }


def row(runs: list[dict[str, Any]]) -> list[str]:
    first = runs[0]
    said = first["shown"][:SHOWN]
    if len(runs) > 1:
        values = {name: [run["scores"][name] for run in runs] for name in list(first["scores"])[:SHOWN]}
        said = [
            f"{name} {statistics.mean(each):.2f} ({', '.join(f'{one:.2f}' for one in each)})"
            for name, each in values.items()
        ]
    minutes = ", ".join(f"{run['minutes']:.0f}" for run in runs)
    size = f"{first['parameters'] / 1e6:.1f} M"
    rows = "held out" if first["rows"] is None else f"{first['rows']:,}"
    return [first["recipe"], size, "; ".join(said), rows, minutes, first["energy"].partition(" (")[0]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--name", default="recipes", help="of the file in results/")
    options = parser.parse_args()
    results = [score(folder, options.beam) for folder in options.runs]
    recipes = list(dict.fromkeys(found["recipe"] for found in results))
    rows = [row([found for found in results if found["recipe"] == recipe]) for recipe in recipes]
    header = ["recipe", "parameters", "on its test set", "rows", "minutes of each seed", "energy of the first"]
    note = "On the recipes' own test sets: the bootstrap's interval for one seed, else the mean and each seed. Energy "
    note += "is estimated at 10 W a busy core, so 1 Wh is six minutes of one core; minutes are the clock's."
    data = {"machine": machine(()), "beam": options.beam, "results": results}
    report(options.name, header, rows, data, note)


if __name__ == "__main__":
    main()
