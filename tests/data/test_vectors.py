"""Files of vectors hold what was written, in every kind; they come whole or not at all, and from little memory."""

import contextlib
import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from faults.refusal import refused
from regard.data.vectors import KINDS, vectors_into

TEXTS = ["a cat", "", 'two\nlines \u2028 and "quotes", 猫 😀', "x" * 5000, "a cat"]
VECTORS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def written(path: Path, portions: list[int]) -> None:
    with vectors_into(path, 3) as write:
        for start, end in zip([0, *portions], [*portions, 5], strict=True):
            write(TEXTS[start:end], VECTORS[start:end])


def read(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    if path.suffix == ".npy":
        return TEXTS, np.load(path)
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return [row["text"] for row in rows], np.array([row["vector"] for row in rows], dtype=np.float32)


@pytest.mark.parametrize("portions", [[], [0, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read(tmp_path: Path, kind: str, portions: list[int]) -> None:
    path = tmp_path / "new" / f"vectors{kind}"
    written(path, portions)
    texts, vectors = read(path)
    assert texts == TEXTS
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, VECTORS, rtol=0, atol=0 if kind != ".jsonl" else 1e-6)
    assert list(path.parent.iterdir()) == [path]


def test_no_text_makes_an_array_without_rows(tmp_path: Path) -> None:
    with vectors_into(tmp_path / "vectors.npy", 384):
        pass
    assert np.load(tmp_path / "vectors.npy").shape == (0, 384)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, KeyError])
def test_what_ends_too_soon_leaves_the_old_file_as_it_was(
    tmp_path: Path, kind: str, error: type[BaseException]
) -> None:
    path = tmp_path / f"vectors{kind}"
    path.write_bytes(b"old")
    with contextlib.suppress(error), vectors_into(path, 3) as write:
        write(TEXTS, VECTORS)
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_array_larger_than_memory_may_be_written(tmp_path: Path) -> None:
    """160 MB through less than 8."""
    portion = np.ones((512, 384), dtype=np.float32)
    tracemalloc.start()
    with vectors_into(tmp_path / "vectors.npy", 384) as write:
        for number in range(200):
            write([], portion * number)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    found = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert found.shape == (200 * 512, 384)
    assert (found[::512, 0] == np.arange(200)).all()


def test_another_ending_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with refused("vectors.bin does not end like", ".npy, .jsonl, .parquet"), vectors_into(tmp_path / "vectors.bin", 3):
        pass


def test_parquet_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused("needs pyarrow", "pip install pyarrow"), vectors_into(tmp_path / "vectors.parquet", 3):
        pass
    assert list(tmp_path.iterdir()) == []
