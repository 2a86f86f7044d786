"""How much faster does greedy search get by guessing? SmolLM2-135M, answers that quote and answers that do not.

    python benchmarks/speculation.py [--rounds 3] [--limit 128]

Ten questions whose answers repeat what was asked, ten whose answers do not. Both ways write the same tokens, one thread
each, and take turns in one run.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from harness import machine, ratio, report, take_turns

from regard.decoding.search import greedy
from regard.decoding.speculate import speculate
from regard.pretrained.installed import path_of
from regard.tasks.generator import Generator
from regard.weights.precision import DTYPES
from regard.weights.store import load_model
from regard.weights.vocabulary import tokenizers_of

STORY = (
    "The lighthouse at Pen Cairn had been dark for eleven years when Maud Tregear came home. Her father had kept it "
    "until the automatic lamp arrived, and after the lamp failed nobody was sent to mend it. She climbed the "
    "ninety-two steps with a lantern, a can of paraffin and a cloth, and by midnight the old lens was turning again. "
    "In the morning three fishing boats lay in the harbour that had been given up for lost."
)
CODE = """def average(values):
    total = 0
    for value in values:
        total = total + value
    count = len(values)
    return total / count


def largest(values):
    best = values[0]
    for value in values:
        if value > best:
            best = value
    return best
"""
LIST = """- apples, 3 kg, 4.50 euros
- flour, 1 kg, 1.20 euros
- butter, 250 g, 2.80 euros
- sugar, 500 g, 0.90 euros
- cinnamon, 40 g, 1.75 euros"""
LETTER = (
    "dear mr holloway, i am writing to tell you that the boiler in flat 12 has stopped working again. it was repaired "
    "on the third of march, and it worked for nine days. please send somebody before the weekend, because my mother is "
    "eighty-one and cannot be without hot water. yours sincerely, joan pettifer"
)
QUOTING = [
    f"Repeat the following text word for word.\n\n{STORY}",
    f"Correct the capital letters in this letter and change nothing else.\n\n{LETTER}",
    f"Rename the function average to mean in this code and print the whole code again.\n\n{CODE}",
    f"Add a docstring to each function of this code and print the whole code again.\n\n{CODE}",
    f"Summarise this text in two sentences, using its own words.\n\n{STORY}",
    f"Copy this shopping list as a numbered list.\n\n{LIST}",
    f"Turn this list into a table with the columns item, amount and price.\n\n{LIST}",
    f"Rewrite this text so that it happens today, keeping as many words as you can.\n\n{STORY}",
    f"Quote the sentence that says who is eighty-one, and then the whole letter.\n\n{LETTER}",
    f"Replace every for loop by a while loop and print the code again.\n\n{CODE}",
]
FREE = [
    "Why is the sky blue?",
    "Write a short poem about a fox in winter.",
    "What should I think of before I buy a used bicycle?",
    "Explain how bread rises.",
    "Tell me a story about a clock that runs backwards.",
    "Who was Marie Curie?",
    "How do I calm a nervous dog during a thunderstorm?",
    "Describe the city of Lisbon to somebody who has never been there.",
    "What is the difference between weather and climate?",
    "Invent a name for a bakery and say why it fits.",
]


def contest(generator: Any, question: str, limit: int) -> tuple[dict[str, Callable[[], list[int]]], list[int]]:
    """Both ways to answer, and how many tokens each pass of the speculative one had."""
    model, ids = generator.model, torch.tensor([generator.encode(question)])
    common = {"limit": limit, "end_ids": model.config.eos_ids}
    passes: list[int] = []

    def steps(ids: torch.Tensor, state: Any, n_last: int) -> torch.Tensor:
        passes.append(n_last)
        return model.steps(ids, state, n_last)

    def run(search: Any, step: Any) -> list[int]:
        passes.clear()
        with torch.inference_mode():
            return [int(id) for id in search(step, model.new_state(1, ids.size(1) + limit), ids, **common)]

    return {"greedy": lambda: run(greedy, model.step), "speculative": lambda: run(speculate, steps)}, passes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=128)
    parser.add_argument("--precision", choices=["fp32", "fp16", "int8"], default="fp32")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = path_of("smollm2")
    generator = Generator(load_model(path, dtype=DTYPES[options.precision]).fuse(), tokenizers_of(path)[0])
    rows, results = [], []
    for kind, questions in (("quoting", QUOTING), ("free", FREE)):
        for question in questions:
            runs, passes = contest(generator, question, options.limit)
            written = {name: run() for name, run in runs.items()}  # warms up, too
            n_passes = len(passes)
            seconds = take_turns(runs, rounds=options.rounds, warm_up=0)
            middle, low, high = ratio(seconds["greedy"], seconds["speculative"])
            same = written["greedy"] == written["speculative"]
            tokens = len(written["greedy"])
            told = f"{middle:.2f}x ({low:.2f} to {high:.2f})"
            rows.append([kind, question.split("\n")[0][:48], str(tokens), str(n_passes), told, "yes" if same else "no"])
            print(" | ".join(rows[-1]), flush=True)
            results.append({"kind": kind, "tokens": tokens, "passes": n_passes, "same": same, "seconds": seconds})
    for kind in ("quoting", "free"):
        gains = [float(row[4].split("x")[0]) for row in rows if row[0] == kind]
        rows.append([kind, "median of all", "", "", f"{statistics.median(gains):.2f}x", ""])
    data = {"machine": machine(()), "precision": options.precision, "rounds": options.rounds, "results": results}
    header = ["answers", "question", "tokens", "passes", "speculative / greedy", "same tokens"]
    note = "Above 1 speculation is faster: median, and the middle half of the rounds."
    report(f"speculation_{options.precision}", header, rows, data, note)


if __name__ == "__main__":
    main()
