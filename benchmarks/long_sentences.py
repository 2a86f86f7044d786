"""How long a sentence does the bundled translator read well? Whole, and cut at a clause.

    REGARD_DATA=DATA python benchmarks/long_sentences.py SEEN [--count 100]

SEEN is the mix that it was trained on (mixed.tsv of tools/pt_en_data.py): sentences in it are left out. The others are
drawn from human translations of documentation, greedily translated, and scored with sacreBLEU. "repeats" counts the
translations in which three words stand together four times or more; the source's own repetitions are in it.
"""

import argparse
import random
from collections import Counter
from pathlib import Path

import sacrebleu
from texts import DATA, pairs

import regard
from regard.text.sentences import split_sentences

SETS = "msdocs_dynamics365_human msdocs_m365_human github_docs kubernetes_docs godot_docs programming_historian"
SETS += " opensource_guide python_docs"
LENGTHS = [(45, 50), (50, 55), (55, 60), (60, 70), (70, 80), (80, 100)]
LIMITS = [45, 50, 55, 60]


def letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def unseen(path: Path) -> list[tuple[str, str]]:
    """Single sentences of 180 to 600 letters whose sides are of a like length, in an order of its own."""
    seen = {letters(source) for source, _ in pairs(path)}
    found = [
        (source, target)
        for name in SETS.split()
        for source, target in pairs(DATA / "more_pt_en" / name / "pairs.pt-en.tsv.gz")
        if 180 < len(source) < 600 and 0.6 < len(target) / len(source) < 1.4
        if letters(source) not in seen and len(split_sentences(source)) == 1
    ]
    random.Random(1).shuffle(found)
    return found[:4000]


def repeats(text: str) -> bool:
    words = text.lower().split()
    return max(Counter(zip(words, words[1:], words[2:], strict=False)).values(), default=0) >= 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seen", type=Path)
    parser.add_argument("--count", type=int, default=100, help="sentences of each length")
    options = parser.parse_args()
    translate, rows = regard.load("pt-en"), unseen(options.seen)
    sizes = [len(ids) for ids in translate.tokenizer.encode_ids([source for source, _ in rows])]
    print("| tokens | sentences | whole, BLEU (repeats) |" + "".join(f" cut at {limit} |" for limit in LIMITS))
    print("|---" * (3 + len(LIMITS)) + "|")
    for low, high in LENGTHS:
        chosen = [row for row, size in zip(rows, sizes, strict=True) if low <= size < high][: options.count]
        cells = []
        for limit in (translate.max_len, *(limit for limit in LIMITS if limit < high)):
            translate.longest = limit
            texts = [found.text for found in translate.many([source for source, _ in chosen], beam=1)]
            score = sacrebleu.corpus_bleu(texts, [[target for _, target in chosen]]).score
            cells.append(f"{score:.1f} ({sum(map(repeats, texts))})")
        cells += [""] * (1 + len(LIMITS) - len(cells))
        print(f"| {low} to {high - 1} | {len(chosen)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
