"""A corpus forty times as large takes no more memory: read, tokenised, reported and trained on for an epoch.

    python tests/data/test_memory.py 10 1000

measures the same with sizes of your choice, in megabytes.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MEASURE = """
import json, resource, sys, time
from pathlib import Path
import torch
from data.words import make_tokenizer, prepared
from regard.data.batches import Position, Steps
from regard.data.pairs import collate
from regard.data.report import report

work, source, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
start, facts = time.perf_counter(), {}
if work == "train":
    tokenizer = make_tokenizer(n_extra=10_000)
    shards = prepared(source, [tokenizer, tokenizer], folder, max_len=100)
    facts["prepare"] = time.perf_counter() - start
    steps = Steps(shards.lengths, budget=6_000, seed=1)
    for count, (rows, position) in enumerate(steps.steps(Position()), 1):
        collate(shards, rows, pad_id=2, start_id=2)
        if position.epoch:
            break
    facts |= {"rows": len(shards), "steps": count}
else:
    facts["rows"] = report(source, {"same": source}).sets["train"].rows
facts["seconds"] = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
facts["peak MB"] = peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
print(json.dumps(facts))
"""


def grow(path: Path, megabytes: float, *, tail: str = "") -> Path:
    """Sentence pairs; with a `tail` to each word there are fewer words, which the test has to wait for."""
    chance = random.Random(0)
    words = [f"x{number}{tail}" for number in range(1_000, 10_000)]
    known = [" ".join(chance.choices(words, k=chance.randint(1, 20))) for _ in range(20_000)]
    size = 0
    with path.open("w", encoding="utf-8") as file:
        while size < megabytes * 1e6:
            size += file.write("".join(f"{chance.choice(known)}\t{chance.choice(known)}\n" for _ in range(1_000)))
    return path


def measure(work: str, source: Path, folder: Path) -> dict[str, float]:
    tests = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(tests), "TOKENIZERS_PARALLELISM": "true"}
    command = [sys.executable, "-c", MEASURE, work, str(source), str(folder)]
    child = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found: dict[str, float] = json.loads(child.stdout)
    return found


WORK = ["train", "report"]


@pytest.mark.slow
@pytest.mark.parametrize("work", WORK)
def test_a_large_corpus_takes_the_memory_of_a_small_one(tmp_path: Path, work: str) -> None:
    pytest.importorskip("resource", reason="memory is measured on POSIX only")
    sources = [grow(tmp_path / f"{size}.tsv", size, tail="-abcdefg") for size in (5, 200)]
    small, large = (measure(work, source, source.with_suffix("")) for source in sources)
    assert large["rows"] > 30 * small["rows"]
    assert large["peak MB"] < 1.1 * small["peak MB"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for size in map(float, sys.argv[1:]):
            source = grow(Path(name) / f"{size:g}.tsv", size)
            for work in WORK:
                print(f"{size:g} MB", work, measure(work, source, Path(name) / f"{size:g}"), flush=True)
            source.unlink()
