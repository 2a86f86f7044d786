"""Make the data of the recipe pt-en: training pairs, two test sets, and nothing shared between them.

    python tools/pt_en_data.py DATA OUT
    python tools/pt_en_distil.py OUT/sources.txt OUT/distilled.tsv
    python tools/pt_en_data.py DATA OUT

DATA holds `tatoeba_pt_en` and `more_pt_en`; OUT gets `train.tsv`, `valid.tsv`, `test.tsv` (Tatoeba) and
`test_long.tsv` (prose), and `sources.txt`, the Portuguese sides that a teacher may translate
(not those of the manuals: they are long, and nobody asks for more software). Once OUT holds the
teacher's translations, `mixed.tsv` is what people wrote and what the teacher wrote, in one file,
and some of it again as if typed in haste.

Which row is tested is a hash of its Portuguese side alone. A sentence has several translations, and translations
have several sources, so a pair is dropped from training when *either* side, without case and punctuation, stands in
a test or validation set: a hash of whole pairs would leave a third of the English sides in training.
"""

import gzip
import hashlib
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

Pair = tuple[str, str]

PROSE = ("programming_historian", "opensource_guide", "ethereum_org_2024_human", "african_storybook")
"Longer sentences that are not manuals; some of them are held out as the second test."
LIMITS = {
    "msdocs_dynamics365_human": 20_000,
    "php_manual": 8_000,
    "python_docs": 8_000,
    "github_docs": 12_000,
    "msdocs_m365_human": 8_000,
    "kubernetes_docs": 4_000,
    "godot_docs": 3_000,
    "tldr_pages": 2_000,
}
"At most so many pairs of each manual: everyday sentences must not drown in software."
MONO = ("mono_common_voice_CC0", "mono_ud_porttinari_CC-BY", "mono_programming_historian_CC-BY")
MAX_CHARS = 400


def main(data: Path, out: Path) -> None:
    tatoeba = list(read_pairs(data / "tatoeba_pt_en" / "train.pt-en.tsv.gz"))
    valid = list(read_pairs(data / "tatoeba_pt_en" / "valid.pt-en.tsv.gz"))
    more = data / "more_pt_en"
    prose = {name: list(read_pairs(more / name / "pairs.pt-en.tsv.gz")) for name in PROSE}

    test = lowest(one_per_source(tatoeba), 2_000)
    long_test = [pair for pairs in prose.values() for pair in lowest(long_ones(pairs), 250)]
    seen = {key(side) for pair in [*valid, *test, *long_test] for side in pair}

    everyday = clean([*tatoeba, *(pair for pairs in prose.values() for pair in pairs)], seen)
    manuals = [lowest(read_pairs(more / name / "pairs.pt-en.tsv.gz"), limit) for name, limit in LIMITS.items()]
    train = list(dict.fromkeys([*everyday, *clean([pair for pairs in manuals for pair in pairs], seen)]))
    mono = [line for name in MONO for line in read_lines(more / name / "mono.pt.txt.gz")]
    sources = [text for text in dict.fromkeys([*(pair[0] for pair in everyday), *mono]) if key(text) not in seen]

    out.mkdir(parents=True, exist_ok=True)
    for name, pairs in {"train": train, "valid": valid, "test": test, "test_long": long_test}.items():
        (out / f"{name}.tsv").write_text("".join(f"{pt}\t{en}\n" for pt, en in pairs), encoding="utf-8")
        print(f"{name}: {len(pairs):,} pairs")
    (out / "sources.txt").write_text("".join(f"{text}\n" for text in sources), encoding="utf-8")
    print(f"sources: {len(sources):,} sentences")
    if (out / "distilled.tsv").exists():
        mixed = list(dict.fromkeys([*train, *taught(out / "distilled.tsv", seen)]))
        mixed += clean([*hasty(mixed), *solemn(mixed)], seen)
        (out / "mixed.tsv").write_text("".join(f"{pt}\t{en}\n" for pt, en in mixed), encoding="utf-8")
        print(f"mixed: {len(mixed):,} pairs")


def clean(pairs: Iterable[Pair], seen: set[str]) -> list[Pair]:
    return [pair for pair in dict.fromkeys(pairs) if not any(key(side) in seen for side in pair)]


def taught(path: Path, seen: set[str]) -> Iterator[Pair]:
    """The teacher's pairs that can be believed: neither side is tested, and none is three times the other."""
    for line in path.read_text(encoding="utf-8").splitlines():
        pt, _, en = line.partition("\t")
        alike = len(pt.split()) <= 3 * len(en.split()) + 2 and len(en.split()) <= 3 * len(pt.split()) + 2
        if en and alike and key(pt) not in seen and key(en) not in seen:
            yield pt, en


def hasty(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """A twelfth of the pairs as people type in haste: small letters, no full stop, half of them without accents."""
    for pt, en in pairs:
        chance = 12 * share(f"haste {pt}")
        if chance < 1:
            typed = pt.lower().rstrip(" .!?")
            bare = "".join(sign for sign in unicodedata.normalize("NFD", typed) if not unicodedata.combining(sign))
            yield (typed if chance < 0.5 else bare), en


def solemn(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """A twelfth of the pairs with capitals where they need not be: on some words, one time in eight on all letters."""
    for pt, en in pairs:
        chance = 12 * share(f"capitals {pt}")
        if chance < 0.125:
            yield pt.upper(), en
        elif chance < 1:
            words = pt.split(" ")
            yield " ".join(w[:1].upper() + w[1:] if share(f"{pt} {i}") < 0.4 else w for i, w in enumerate(words)), en


def read_lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            text = unicodedata.normalize("NFC", line.rstrip("\n"))
            if text.strip() and len(text) <= MAX_CHARS:
                yield text


def read_pairs(path: Path) -> Iterator[Pair]:
    for line in read_lines(path):
        sides = [side.strip() for side in line.split("\t")]
        if len(sides) == 2 and all(sides):
            yield sides[0], sides[1]


def key(text: str) -> str:
    """What makes two sentences the same: their letters and digits."""
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


def share(text: str) -> float:
    """A number from 0 to 1 that the sentence decides alone."""
    return int.from_bytes(hashlib.sha256(key(text).encode()).digest()[:8], "big") / 2**64


def lowest(pairs: Iterable[Pair], count: int) -> list[Pair]:
    """A sample that does not change when other pairs come or go."""
    return sorted(pairs, key=lambda pair: (share(pair[0]), pair))[:count]


def long_ones(pairs: Iterable[Pair]) -> list[Pair]:
    return one_per_source(pair for pair in pairs if 8 <= len(pair[0].split()) <= 40)


def one_per_source(pairs: Iterable[Pair]) -> list[Pair]:
    return list({key(pair[0]): pair for pair in pairs}.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
