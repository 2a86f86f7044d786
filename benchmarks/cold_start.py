"""How long from the command to the result? `regard translate`, `generate` and `embed` beside the same in transformers.

    python benchmarks/cold_start.py [translate] [generate] [embed] [--rounds 15] [--model DIRECTORY]

Each pair are whole processes that open the same weights, do the same and print the same; they take turns, and before
that each runs once, so that both find their files in memory. `import torch` alone runs with them: no program that uses
torch can be faster.

translate opens a translator's directory (--model, by default the bundled pt-en) and searches with a beam of 4; generate
answers with 16 tokens of SmolLM2, which transformers opens from the same GGUF file; embed turns one sentence into
MiniLM's vector, in transformers by AutoModel and the mean of its tokens.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from harness import machine, ratio, report, take_turns

from regard.pretrained.bundled import TRANSLATOR, folder_of
from regard.pretrained.installed import path_of

BEAM, NEW, BAR = "4", "16", 0.5
TRANSLATE = """
import sys
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
directory, text, beam = sys.argv[1:]
tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModelForSeq2SeqLM.from_pretrained(directory)
ids = model.generate(**tokenizer(text, return_tensors="pt"), num_beams=int(beam), max_length=100)
print(tokenizer.decode(ids[0], skip_special_tokens=True).strip())
"""
GENERATE = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, file, text, new = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
chat = [{"role": "user", "content": text}]
given = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
ids = model.generate(**given, max_new_tokens=int(new), do_sample=False)
print(tokenizer.decode(ids[0, given["input_ids"].size(1):], skip_special_tokens=True))
"""
EMBED = """
import sys, torch
from transformers import AutoModel, AutoTokenizer
directory, text = sys.argv[1:]
tokenizer, model = AutoTokenizer.from_pretrained(directory), AutoModel.from_pretrained(directory)
with torch.inference_mode():
    mean = model(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)
print(torch.nn.functional.normalize(mean)[0].tolist())
"""
OFFLINE = os.environ | {"HF_HUB_OFFLINE": "1"}  # else transformers may ask the hub about a directory


class Job(NamedTuple):
    ours: list[str]
    "What follows `regard`."
    theirs: list[str]
    "A script and its arguments."
    same: Callable[[str, str], bool] = str.__eq__


def translate(model: Path | None) -> Job:
    text, named = "O livro está em cima da mesa.", ["--model", str(model)] if model else []
    return Job(
        ["translate", *named, "--beam", BEAM, text], [TRANSLATE, str(model or folder_of(TRANSLATOR)), text, BEAM]
    )


def generate(_: Path | None) -> Job:
    text, file = "What is the capital of Japan?", path_of("smollm2")
    return Job(["generate", "--max-new", NEW, text], [GENERATE, str(file.parent), file.name, text, NEW])


def embed(_: Path | None) -> Job:
    text = "A cat sat on the mat."
    return Job(["embed", text], [EMBED, str(path_of("minilm")), text], near)


def near(ours: str, theirs: str) -> bool:
    """Vectors of length 1; ours is of weights in eight bits, which is what nobody asks for gets here."""
    return sum(one * other for one, other in zip(json.loads(ours), json.loads(theirs), strict=True)) > 0.995


JOBS = {"translate": translate, "generate": generate, "embed": embed}


def commands(job: Job) -> dict[str, list[str]]:
    regard, python = str(Path(sys.executable).with_name("regard")), [sys.executable, "-c"]
    return {
        "regard": [regard, *job.ours],
        "transformers": [*python, *job.theirs],
        "import torch": [*python, "import torch"],
    }


def run(command: list[str], work: list[float]) -> str:
    """What the process printed; its processor seconds, of all threads, are added to `work`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=OFFLINE, check=True, text=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return done.stdout


def measure(name: str, job: Job, rounds: int) -> tuple[list[list[str]], dict[str, Any]]:
    work: dict[str, list[float]] = {each: [] for each in commands(job)}
    runs = {each: partial(run, command, work[each]) for each, command in commands(job).items()}
    ours, theirs, _ = (each() for each in runs.values())
    if not job.same(ours, theirs):
        sys.exit(f"error: not the same work: {ours!r} and {theirs!r}")
    seconds = take_turns(runs, rounds=rounds, warm_up=0)
    rows, results = [], {}
    for each, times in seconds.items():
        share = dict(zip(("median", "low", "high"), ratio(times, seconds["transformers"]), strict=True))
        results[each] = {"share": share, "seconds": times, "processor_seconds": work[each][1:]}
        spread = f"{share['low']:.2f} to {share['high']:.2f}"
        numbers = [f"{median(times):.2f}", f"{median(work[each][1:]):.2f}", f"{share['median']:.2f}x", spread]
        rows.append([name, each, *numbers])
    return rows, {"printed": ours.strip()[:200], "results": results}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(JOBS), metavar="translate generate embed")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    rows: list[list[str]] = []
    data: dict[str, Any] = {"machine": machine(("transformers",)), "rounds": options.rounds, "bar": BAR}
    for name in options.names:
        found, data[name] = measure(name, JOBS[name](options.model), options.rounds)
        rows += found
        print("\n".join(" ".join(each) for each in found), file=sys.stderr, flush=True)
    report(
        "cold_start",
        ["verb", "whole command", "seconds", "processor seconds", "share of transformers", "middle half of the rounds"],
        rows,
        data,
        f"Medians; below 1 is faster than transformers, the bar is {BAR}. The last row of each verb is the floor for a "
        "program that uses torch.",
    )


if __name__ == "__main__":
    main()
