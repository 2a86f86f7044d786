"""How long from the command to the translation? `regard translate "..."` beside the same through transformers.

    python benchmarks/cold_start.py [--rounds 15] [--model DIRECTORY]

Both are whole processes that open the same directory (by default the bundled pt-en), search with the same beam and
print the same sentence; they take turns, and before that each runs once, so that both find their files in memory.
`import torch` alone runs with them: no program that uses torch can be faster.
"""

import argparse
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from harness import machine, ratio, report, take_turns

from regard.pretrained.bundled import TRANSLATOR, folder_of

TEXT, BEAM = "O livro está em cima da mesa.", 4
THROUGH_TRANSFORMERS = """
import sys
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
directory, text, beam = sys.argv[1:]
tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModelForSeq2SeqLM.from_pretrained(directory)
ids = model.generate(**tokenizer(text, return_tensors="pt"), num_beams=int(beam), max_length=100)
print(tokenizer.decode(ids[0], skip_special_tokens=True).strip())
"""
OFFLINE = os.environ | {"HF_HUB_OFFLINE": "1"}  # else transformers may ask the hub about a directory


def commands(model: Path | None) -> dict[str, list[str]]:
    regard, python = str(Path(sys.executable).with_name("regard")), [sys.executable, "-c"]
    named = ["--model", str(model)] if model else []
    return {
        "regard translate": [regard, "translate", *named, "--beam", str(BEAM), TEXT],
        "transformers": [*python, THROUGH_TRANSFORMERS, str(model or folder_of(TRANSLATOR)), TEXT, str(BEAM)],
        "import torch": [*python, "import torch"],
    }


def run(command: list[str], work: list[float]) -> str:
    """What the process printed; its processor seconds, of all threads, are added to `work`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=OFFLINE, check=True, text=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    work: dict[str, list[float]] = {name: [] for name in commands(options.model)}
    runs = {name: partial(run, command, work[name]) for name, command in commands(options.model).items()}
    ours, theirs, _ = (each() for each in runs.values())
    if ours != theirs:
        sys.exit(f"error: not the same work: {ours!r} and {theirs!r}")
    seconds = take_turns(runs, rounds=options.rounds, warm_up=0)
    rows, results = [], {}
    for name, times in seconds.items():
        share = dict(zip(("median", "low", "high"), ratio(times, seconds["transformers"]), strict=True))
        results[name] = {"share": share, "seconds": times, "processor_seconds": work[name][1:]}
        spread = f"{share['low']:.2f} to {share['high']:.2f}"
        rows.append([name, f"{median(times):.2f}", f"{median(work[name][1:]):.2f}", f"{share['median']:.2f}x", spread])
    data: dict[str, Any] = {"machine": machine(("transformers",)), "rounds": options.rounds, "beam": BEAM}
    report(
        "cold_start",
        ["whole command", "seconds", "processor seconds", "share of transformers", "middle half of the rounds"],
        rows,
        data | {"text": TEXT, "printed": ours.strip(), "results": results},
        "Medians; below 1 is faster than transformers. The last row is the floor for a program that uses torch.",
    )


if __name__ == "__main__":
    main()
