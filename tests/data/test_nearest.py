"""What is found is what comparing everything with everything finds, in whatever portions the vectors come."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.refusal import refused
from regard.data import nearest
from regard.data.nearest import Hit, Nearest, read_vectors

numbers = st.integers(-2, 2).map(float)
rows = st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=9)


@given(rows, rows, st.integers(1, 12), st.integers(1, 9))
def test_the_nearest_are_found_in_any_portions(
    queries: list[tuple[float, ...]], texts: list[tuple[float, ...]], top: int, portion: int
) -> None:
    """Small whole numbers: many are equally near, and then the earlier one comes first; some are zero."""
    found = Nearest(np.array(queries, dtype=np.float32), top)
    for start in range(0, len(texts), portion):
        some = texts[start : start + portion]
        names = [f"text {start + i + 1}" for i in range(len(some))]
        found.add(names, np.array(some, dtype=np.float32))
    for query, hits in zip(queries, found.hits(), strict=True):
        expected = [(cosine(query, text), n) for n, text in enumerate(texts, start=1)]
        expected.sort(key=lambda pair: (-round(pair[0], 5), pair[1]))
        assert [hit.score for hit in hits] == pytest.approx([score for score, _ in expected[:top]], abs=1e-5)
        assert all(hit.text == f"text {hit.number}" for hit in hits)
        near = {n for score, n in expected if score > hits[-1].score + 1e-5}
        assert near <= {hit.number for hit in hits}
        assert len({hit.number for hit in hits}) == min(top, len(texts))


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.dot(a, b)) / length if length else 0.0


def test_of_two_that_are_the_same_the_earlier_comes_first() -> None:
    found = Nearest(np.ones((1, 2), dtype=np.float32), 2)
    for _ in range(3):
        found.add(["a", "b"], np.ones((2, 2), dtype=np.float32))
    assert list(found.hits()) == [[Hit(pytest.approx(1.0), 1, "a"), Hit(pytest.approx(1.0), 2, "b")]]


def test_only_the_texts_that_may_be_shown_are_kept() -> None:
    found = Nearest(np.ones((2, 3), dtype=np.float32), 2)
    for seed in range(20):
        block = np.random.default_rng(seed).normal(size=(50, 3)).astype(np.float32)
        found.add([str(i) for i in range(50)], block)
    assert found.n_seen == 1000
    assert len(found._texts) <= 4


def test_no_query_and_no_text_find_nothing() -> None:
    none = np.zeros((0, 3), dtype=np.float32)
    found = Nearest(none, 2)
    found.add(["a"], np.ones((1, 3), dtype=np.float32))
    assert list(found.hits()) == []
    assert list(Nearest(np.ones((1, 3), dtype=np.float32), 2).hits()) == [[]]


def test_a_file_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "BLOCK", 3)
    saved = np.arange(14, dtype=np.float64).reshape(7, 2)
    np.save(tmp_path / "v.npy", saved)
    blocks = list(read_vectors(tmp_path / "v.npy", 2))
    assert [len(block) for block in blocks] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(blocks), saved)


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros((3, 4), dtype=np.float32), "holds vectors of 4 numbers, the model makes 2"),
        (np.zeros(3, dtype=np.float32), "does not hold one row"),
        (np.zeros((3, 2), dtype=np.int64), "does not hold one row"),
        (np.array([[0, 1], [np.nan, 0]], dtype=np.float32), "vector 2 is not made of numbers"),
    ],
    ids=["width", "flat", "whole numbers", "nan"],
)
def test_other_arrays_are_refused(tmp_path: Path, array: np.ndarray, error: str) -> None:
    np.save(tmp_path / "v.npy", array)
    with refused(tmp_path / "v.npy", error):
        list(read_vectors(tmp_path / "v.npy", 2))


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00", b"PK\x03\x04"], ids=repr)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "v.npy").write_bytes(content)
    with refused(tmp_path / "v.npy", "is not a file of vectors"):
        list(read_vectors(tmp_path / "v.npy", 2))


def test_nothing_in_a_file_is_ever_run(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with refused("is not a file of vectors"):
        list(read_vectors(tmp_path / "v.npy", 2))
