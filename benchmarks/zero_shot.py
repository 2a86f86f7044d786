"""How often does a language model find the label of a text that nobody taught it? SmolLM2-135M on SST-2.

    python benchmarks/zero_shot.py DATA/sst2/glue_dev.tsv.gz [--sentences 872] [--precision int8]

The label whose words are likeliest after the text, in two templates and the three ways to compare labels
(`regard classify --zero-shot`). Nothing is chosen by the result: both templates stand in docs/classify.md.
"""

import argparse
from pathlib import Path

import numpy as np
from harness import machine, report

import regard
from regard.data.corpus import read_rows
from regard.tasks.zero_shot import TEMPLATE, WAYS, ZeroShot

LABELS = {"0": "negative", "1": "positive"}
TEMPLATES = (TEMPLATE, "Review: {text}\nSentiment: {label}")


def interval(hits: np.ndarray) -> tuple[float, float]:
    """What 95 of 100 resamplings of the sentences lie between."""
    chance = np.random.default_rng(12345)
    means = [hits[chance.integers(len(hits), size=len(hits))].mean() for _ in range(1000)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--sentences", type=int, default=872)
    parser.add_argument("--precision", default="int8", choices=("fp32", "fp16", "int8"))
    options = parser.parse_args()
    found = list(read_rows(options.data, columns=["content", "label"]))[: options.sentences]
    texts, labels = [row[0] for row in found], [LABELS[row[1]] for row in found]
    generate = regard.load("smollm2", precision=options.precision)
    commoner = max(labels.count(each) for each in LABELS.values()) / len(labels)
    rows, results = [], []
    for template in TEMPLATES:
        for way in WAYS:
            answers = ZeroShot(generate, list(LABELS.values()), template, by=way)(texts)
            hits = np.array([answer.label == label for answer, label in zip(answers, labels, strict=True)])
            low, high = interval(hits)
            shown = template.replace("\n", "\\n")
            rows.append([f"`{shown}`", way, f"{hits.mean():.3f} [{low:.3f}, {high:.3f}]"])
            print(" ".join(rows[-1]), flush=True)
            results.append({"template": template, "by": way, "accuracy": float(hits.mean()), "interval": [low, high]})
    note = f"{len(texts)} sentences of SST-2's development set; who always says the commoner label has {commoner:.3f}."
    data = {"machine": machine(()), "precision": options.precision, "sentences": len(texts), "results": results}
    report("zero_shot", ["template", "labels compared by", "accuracy, 95 %"], rows, data, note)


if __name__ == "__main__":
    main()
