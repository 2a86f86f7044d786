"""How fast does a real language model write, beside llama.cpp? SmolLM2-135M from one GGUF file, one text at a time.

    python benchmarks/smollm2.py [--rounds 7] [--new 128]

Both open the same file, read the same prompt and write the same number of tokens greedily, past any end, with two
threads. llama.cpp multiplies with the four bits of the file, ours with float32 or eight bits made from them. So that
they do the same work, the text that ours writes in float32 is read by llama.cpp: it must choose the same next token
nine times in ten (where they part, the two likeliest are close).
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import llama_cpp
import numpy as np
import torch
from harness import machine, report, shown, take_turns

import regard
from regard.decoding.search import greedy
from regard.pretrained.installed import path_of
from regard.weights.precision import Precision

THREADS, ROOM = 2, 512
TEXT = "What is attention in a neural network, and why does it help to translate long sentences?"
AGREEMENT, BAR = 0.9, 0.8
Run = Callable[[], list[int]]


def ours(prompt: list[int], new: int, precision: Precision) -> Run:
    model = regard.load("smollm2", precision=precision).model

    @torch.inference_mode()
    def run() -> list[int]:
        state = model.new_state(1, len(prompt) + new)
        return [int(token) for token in greedy(model.step, state, torch.tensor([prompt]), limit=new)]

    return run


def opened(file: Path, *, all_scores: bool = False) -> llama_cpp.Llama:
    options = {"n_ctx": ROOM, "n_threads": THREADS, "n_threads_batch": THREADS, "verbose": False}
    return llama_cpp.Llama(str(file), logits_all=all_scores, **options)


def through_llama(file: Path, prompt: list[int], new: int) -> Run:
    model = opened(file)

    def run() -> list[int]:
        model.reset()  # else it would remember the prompt of the round before
        return list(islice(model.generate(prompt, temp=0.0, repeat_penalty=1.0), new))

    return run


def agreement(file: Path, prompt: list[int], written: list[int]) -> float:
    """The share of tokens that llama.cpp would have chosen too, after the same text."""
    model = opened(file, all_scores=True)
    model.eval([*prompt, *written[:-1]])
    chosen = np.asarray(model.scores)[len(prompt) - 1 : len(prompt) + len(written) - 1].argmax(-1)
    return float((chosen == written).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--new", type=int, default=128)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    file = path_of("smollm2")
    prompt = regard.load("smollm2").encode(TEXT)  # type: ignore[operator]
    runs = {
        "regard fp16": ours(prompt, options.new, "fp16"),
        "regard int8": ours(prompt, options.new, "int8"),
        "regard fp32": ours(prompt, options.new, "fp32"),
        "llama.cpp": through_llama(file, prompt, options.new),
    }
    texts = {name: run() for name, run in runs.items()}
    same = {name: agreement(file, prompt, text) for name, text in texts.items()}
    if same["regard fp32"] < AGREEMENT or {len(text) for text in texts.values()} != {options.new}:
        sys.exit(f"error: not the same work: agreement {same}")
    seconds = take_turns(runs, rounds=options.rounds, warm_up=1)
    rows = [
        [name, f"{options.new / statistics.median(times):.1f}", shown(seconds["llama.cpp"], times), f"{same[name]:.1%}"]
        for name, times in seconds.items()
    ]
    data = {"machine": machine(("llama-cpp-python",)), "rounds": options.rounds, "file": file.name, "bar": BAR}
    sizes = {"prompt": len(prompt), "new": options.new}
    header = ["contestant", "tokens/s", "against llama.cpp", "tokens that llama.cpp chooses too"]
    note = f"Above 1 faster than llama.cpp: median, and the middle half of the rounds. The bar is {BAR}x."
    report("smollm2", header, rows, data | sizes | {"agreement": same, "seconds": seconds}, note)


if __name__ == "__main__":
    main()
