"""What do the shipped recipes reach? Scores finished runs on their own test sets and writes one table.

    regard train multi30k-de-en --out RUNS/multi30k-de-en        (each recipe, from a folder that holds data/)
    python benchmarks/recipes.py RUNS/multi30k-de-en [RUNS/multi30k-lstm ...] [--beam 4]

Minutes and energy are the run's own count over all its sittings; validation and checkpoints are included.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from harness import machine, report

from regard.data.corpus import read_rows
from regard.evaluation.translation import bleu, chrf
from regard.tasks.load import load_task
from regard.tasks.translator import Translator
from regard.training.folder import LOG_FILE, RUN_FILE, read_run


def last_of(folder: Path, kind: str) -> dict[str, Any]:
    lines = (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = next(event for event in map(json.loads, reversed(lines)) if event["kind"] == kind)
    return found


def score(folder: Path, beam: int) -> dict[str, Any]:
    config = read_run(folder / RUN_FILE)
    pairs = list(read_rows([Path(name) for name in config.data.test]))
    translator = load_task(folder / "model", Translator)
    texts = [translation.text for translation in translator.many([pair[0] for pair in pairs], beam=beam)]
    scores = [metric(texts, [pair[1] for pair in pairs], bootstrap=1000) for metric in (bleu, chrf)]
    end = last_of(folder, "end")
    return {
        "recipe": folder.name,
        "parameters": translator.model.n_parameters,
        "scores": {each.name: str(each).removeprefix(f"{each.name} ") for each in scores},
        "signature": scores[0].signature,
        "sentences": len(pairs),
        "minutes": end["seconds"] / 60,
        "how": end["how"],
        "energy": end["energy"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--beam", type=int, default=4)
    options = parser.parse_args()
    results = [score(folder, options.beam) for folder in options.runs]
    rows = [
        [
            found["recipe"], f"{found['parameters'] / 1e6:.1f} M", *found["scores"].values(),
            f"{found['minutes']:.0f}", found["energy"],
        ]
        for found in results
    ]  # fmt: skip
    header = ["recipe", "parameters", "BLEU", "chrF", "minutes", "energy"]
    note = f"Test sets of the recipes, beam {options.beam}, {results[0]['signature']}."
    report("recipes", header, rows, {"machine": machine(()), "beam": options.beam, "results": results}, note)


if __name__ == "__main__":
    main()
