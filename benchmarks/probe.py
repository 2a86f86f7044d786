"""The numbers of docs/probe.md: every probe of that page, once.

    regard train injection-detector --out RUNS/detector
    python benchmarks/probe.py --data DATA --detector RUNS/detector/model [--texts FOLDER]

DATA holds crows_pairs, winobias and prompt_injection as they are published. `--texts` keeps what each command printed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import machine, report

CROWS, WINO, PROMPTS = (
    "crows_pairs/crows_pairs_anonymized.csv.gz",
    "winobias/pro_stereotyped_type2.txt.dev",
    "prompt_injection/deepset_train.jsonl.gz",
)


def commands(data: Path, detector: Path) -> dict[str, list[str]]:
    """By what the page calls them: without folders of this machine."""
    crows, wino, prompts = (str(data / name) for name in (CROWS, WINO, PROMPTS))
    asked = [
        ["bias", "smollm2"],
        ["bias", "smollm2", "--data", crows, "--data", wino],
        ["bias", "minilm"],
        ["bias", "words"],
        ["injection", "smollm2", "--max-new", "24"],
        ["injection", "pt-en"],
        ["injection", str(detector)],
        ["injection", str(detector), "--data", prompts],
        ["limits", "smollm2", "--max-new", "32"],
    ]
    named = {str(detector): "runs/detector/model"} | {path: Path(path).name for path in (crows, wino, prompts)}
    return {"regard probe " + " ".join(named.get(word, word) for word in words): words for words in asked}


def probe(words: list[str]) -> tuple[str, dict[str, Any]]:
    """What it printed, and its whole report."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [sys.executable, "-m", "regard", "probe", *words, "--out", str(out)]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return text, json.loads(out.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--detector", type=Path, required=True)
    parser.add_argument("--texts", type=Path)
    options = parser.parse_args()
    rows, reports = [], []
    for number, (name, words) in enumerate(commands(options.data, options.detector).items()):
        text, found = probe(words)
        if options.texts:
            options.texts.mkdir(parents=True, exist_ok=True)
            (options.texts / f"{number}.txt").write_text(f"$ {name}\n{text}", encoding="utf-8")
        for finding in found["findings"]:
            finding.pop("examples", None)
            rows += [row(name, finding, each) for each in finding["measures"]]
        reports.append({"command": name, **found})
        print(name, flush=True)
    header = ["command", "measure", "value", "95 %", "rows"]
    data = {"machine": machine(()), "reports": reports}
    report("probe", header, rows, data, "Greedy, float32, seed 0; the reports below are whole but for their examples.")


def row(command: str, finding: dict[str, Any], measure: dict[str, Any]) -> list[str]:
    interval = "" if measure["low"] is None else f"[{measure['low']:.3g}, {measure['high']:.3g}]"
    what = f"{finding['name']}: {measure['name'].strip()}"
    return [
        f"`{command}`",
        what,
        f"{measure['value']:.3g} {measure['unit']}",
        interval or measure["note"],
        str(measure["n"]),
    ]


if __name__ == "__main__":
    main()
