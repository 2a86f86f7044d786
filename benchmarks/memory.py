"""How much memory does a model take, beside its peers? The peak of a process above the bare import of its runtime.

    python benchmarks/memory.py [gpt2] [smollm2] [minilm] [--rounds 3]

Each contestant is a script of two parts: imports, and work (open the model, use it once). One process runs the imports,
another the imports and the work, and each then tells the largest resident memory that it ever had (VmHWM: what it
allocated and the pages of mapped files that it touched, weights included). The difference is what the model costs
whoever has the runtime anyway; the import alone is in the table too. What a runtime imports later, at work, is work.
Two threads everywhere. GPT-2 has random weights, the same for all; CTranslate2 opens what its converter made of them.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness import machine, report, take_turns

from regard.pretrained.installed import path_of

BAR = 1.0
PROMPT, NEW = 25, 128
SENTENCES = ["A cat sat on the mat.", "The train to the coast leaves at noon, if it leaves at all."] * 32
PEAK = "import re; print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"


class Contestant(NamedTuple):
    imports: str
    work: str


OURS = "import torch; torch.set_num_threads(2)\nfrom regard.tasks.load import load, load_model\n"
OURS += "from regard.decoding.search import greedy\nfrom regard.layers.half import HalfWeight\n"
OURS += "from regard.layers.int8 import Int8Weight"
TRANSFORMERS = "import torch; torch.set_num_threads(2)\nfrom transformers import GPT2LMHeadModel"
WRITE = """
state = model.new_state(1, len(prompt) + new)
with torch.inference_mode():
    assert len(list(greedy(model.step, state, torch.tensor([prompt]), limit=new))) == new
"""


def gpt2(folder: Path) -> dict[str, Contestant]:
    from decoding import convert, make  # the random model of that benchmark, and its conversion

    make("gpt2", folder)
    convert("gpt2", folder, folder / "int8", "int8")
    given = f"prompt, new, folder = list(range(2, {PROMPT + 2})), {NEW}, {str(folder)!r}\n"
    theirs = given + "model = GPT2LMHeadModel.from_pretrained(folder).eval()\n"
    theirs += "model.generate(torch.tensor([prompt]), max_new_tokens=new, min_new_tokens=new, do_sample=False)"
    engine = given + "model = ctranslate2.Generator(folder + '/int8', compute_type='int8', intra_threads=2)\n"
    engine += "texts, size = [[f't{id}' for id in prompt]], dict(max_length=new, min_length=new)\n"
    engine += "model.generate_batch(texts, sampling_topk=1, include_prompt_in_result=False, **size)"
    own = given + "model = load_model(folder, dtype={}).fuse()" + WRITE
    return {
        "regard int8": Contestant(OURS, own.format("Int8Weight")),
        "regard fp16": Contestant(OURS, own.format("HalfWeight")),
        "CTranslate2 int8": Contestant("import ctranslate2", engine),
        "regard fp32": Contestant(OURS, own.format("torch.float32")),
        "transformers fp32": Contestant(TRANSFORMERS, theirs),
    }


def smollm2(_: Path) -> dict[str, Contestant]:
    given = f"prompt, new, file = list(range(2, {PROMPT + 2})), {NEW}, {str(path_of('smollm2'))!r}\n"
    options = "n_ctx=512, n_threads=2, n_threads_batch=2, verbose=False"
    llama = given + f"model = llama_cpp.Llama(file, {options})\n"
    llama += "assert len(list(islice(model.generate(prompt, temp=0.0, repeat_penalty=1.0), new))) == new"
    own = given + "model = load_model(file, dtype={}).fuse()" + WRITE
    return {
        "regard int8": Contestant(OURS, own.format("Int8Weight")),
        "regard fp16": Contestant(OURS, own.format("HalfWeight")),
        "regard fp32": Contestant(OURS, own.format("torch.float32")),
        "llama.cpp": Contestant("import llama_cpp\nfrom itertools import islice", llama),
    }


def minilm(_: Path) -> dict[str, Contestant]:
    folder = str(path_of("minilm"))
    own = f"task = load({folder!r}, precision={{!r}})\ntask({SENTENCES!r})"
    theirs = f"SentenceTransformer({folder!r}, device='cpu', local_files_only=True).encode({SENTENCES!r})"
    imports = "import torch; torch.set_num_threads(2)\nfrom sentence_transformers import SentenceTransformer"
    return {
        "regard int8": Contestant(OURS, own.format("int8")),
        "regard fp16": Contestant(OURS, own.format("fp16")),
        "regard fp32": Contestant(OURS, own.format("fp32")),
        "sentence-transformers": Contestant(imports, theirs),
    }


CASES = {"gpt2": gpt2, "smollm2": smollm2, "minilm": minilm}
PAIRS = {
    "gpt2": [
        ("regard int8", "CTranslate2 int8"),
        ("regard fp16", "CTranslate2 int8"),
        ("regard fp32", "transformers fp32"),
    ],
    "smollm2": [("regard int8", "llama.cpp"), ("regard fp16", "llama.cpp"), ("regard fp32", "llama.cpp")],
    "minilm": [
        ("regard int8", "sentence-transformers"),
        ("regard fp16", "sentence-transformers"),
        ("regard fp32", "sentence-transformers"),
    ],
}


def peak(script: str) -> int:
    """Bytes; the process tells it itself, since what a parent hears may count the parent."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", f"{script}\n{PEAK}"]
    done = subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE)
    return 1024 * int(done.stdout.split()[-1])


def measure(each: Contestant, found: dict[str, list[int]]) -> None:
    found["import"].append(peak(each.imports))
    found["work"].append(peak(f"{each.imports}\n{each.work}"))


def above(found: dict[str, list[int]]) -> float:
    return statistics.median(found["work"]) - statistics.median(found["import"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(CASES), metavar="gpt2 smollm2 minilm")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows, results = [], {}
    for name in options.names:
        with tempfile.TemporaryDirectory() as place:
            contestants = CASES[name](Path(place))
            found: dict[str, dict[str, list[int]]] = {each: {"import": [], "work": []} for each in contestants}
            runs = {each: partial(measure, contestant, found[each]) for each, contestant in contestants.items()}
            take_turns(runs, rounds=options.rounds, warm_up=0)
        results[name] = found
        for mine, peer in PAIRS[name]:
            numbers = [f"{value / 1e6:.0f}" for value in sides(found[mine], found[peer])]
            rows.append([name, mine, peer, *numbers, f"{above(found[mine]) / above(found[peer]):.2f}x"])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    packages = ("transformers", "sentence-transformers", "ctranslate2", "llama-cpp-python")
    header = ["model", "ours", "peer", "ours, MB", "peer, MB", "our import, MB", "its import, MB", "ours / peer"]
    data = {"machine": machine(packages), "rounds": options.rounds, "bar": BAR, "bytes": results}
    note = f"Peak above the bare import, medians: {NEW} tokens, or {len(SENTENCES)} sentences. The bar is {BAR}x."
    report("memory", header, rows, data, note)


def sides(mine: dict[str, list[int]], peer: dict[str, list[int]]) -> list[float]:
    return [above(mine), above(peer), *(statistics.median(each["import"]) for each in (mine, peer))]


if __name__ == "__main__":
    main()
