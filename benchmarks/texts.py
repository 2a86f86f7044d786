"""Real sentences for the benchmarks, from the folder named by REGARD_DATA."""

import gzip
import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DATA = Path(os.environ.get("REGARD_DATA") or Path(__file__).parents[2] / "shared" / "data")
SHORT = DATA / "tatoeba_pt_en" / "valid.pt-en.tsv.gz"
LONG = DATA / "more_pt_en" / "programming_historian" / "pairs.pt-en.tsv.gz"


def pairs(path: Path) -> list[tuple[str, str]]:
    """Portuguese and English, a tab between them; gzipped or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return [(pt, en) for pt, en in (line.split("\t")[:2] for line in text.splitlines() if "\t" in line)]


def english(count: int) -> list[str]:
    """Three short everyday sentences to one long one of prose, drawn evenly from the whole of each file."""
    short, long = ([en for _, en in pairs(path)] for path in (SHORT, LONG))
    return evenly(short, count - count // 4) + evenly(long, count // 4)


def evenly(items: list[T], count: int) -> list[T]:
    return [items[i * len(items) // count] for i in range(count)]
