"""Texts with their vectors into a file, a portion at a time: it never holds them all, nor leaves half a file behind."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from regard.data.corpus import arrow_for
from regard.errors import USAGE, UserError
from regard.files import replacing

Vectors = NDArray[np.float32]
Write = Callable[[Sequence[str], Vectors], None]
"Takes the next texts and their vectors (n, width)."

DIGITS = 7
"After the point: as many as float32 has where no number is above 1."


@contextmanager
def vectors_into(path: Path, width: int) -> Iterator[Write]:
    """What kind of file it is says its ending; it stands there when all is written."""
    kind = writer_of(path)
    with replacing(path) as file, kind(file, width) as write:
        yield write


def writer_of(path: Path) -> Callable[[BinaryIO, int], AbstractContextManager[Write]]:
    if path.suffix.lower() not in KINDS:
        hint = f"expected one of {', '.join(KINDS)}"
        raise UserError(f"{path} does not end like a file of vectors", hint, exit_code=USAGE)
    if path.suffix.lower() == ".parquet":
        arrow_for(path)
    return KINDS[path.suffix.lower()]


def plain(vectors: Vectors) -> list[list[float]]:
    """For JSON."""
    found: list[list[float]] = vectors.astype(np.float64).round(DIGITS).tolist()
    return found


@contextmanager
def _npy(file: BinaryIO, width: int) -> Iterator[Write]:
    """The header comes first and says how many rows follow, so it is written anew at the end: its size is the same."""
    n_rows = 0

    def head() -> int:
        npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (n_rows, width)})
        return file.tell()

    def write(_: Sequence[str], vectors: Vectors) -> None:
        nonlocal n_rows
        file.write(vectors.astype("<f4").tobytes())
        n_rows += len(vectors)

    size = head()
    yield write
    file.seek(0)
    assert head() == size, "numpy keeps room for a longer count"


@contextmanager
def _jsonl(file: BinaryIO, _: int) -> Iterator[Write]:
    def write(texts: Sequence[str], vectors: Vectors) -> None:
        for text, vector in zip(texts, plain(vectors), strict=True):
            line = json.dumps({"text": text, "vector": vector}, ensure_ascii=False)
            file.write(line.encode("utf-8") + b"\n")

    yield write


@contextmanager
def _parquet(file: BinaryIO, width: int) -> Iterator[Write]:
    arrow, parquet = arrow_for(Path(file.name))
    schema = arrow.schema([("text", arrow.string()), ("vector", arrow.list_(arrow.float32(), width))])

    def write(texts: Sequence[str], vectors: Vectors) -> None:
        rows = arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.reshape(-1)), width)
        table.write_batch(arrow.record_batch([arrow.array(texts, arrow.string()), rows], schema=schema))

    with parquet.ParquetWriter(file, schema) as table:
        yield write


def write_word2vec(path: Path, words: Sequence[str], vectors: Vectors) -> None:
    """The text file of Mikolov's program, which others open too: how many and how wide, then a word a line.

    Numbers are as long as they must be to come back the same.
    """
    with replacing(path) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            assert not any(map(str.isspace, word)), "spaces part the numbers"
            file.write(f"{word} {' '.join(map(str, vector))}\n".encode())


KINDS = {".npy": _npy, ".jsonl": _jsonl, ".parquet": _parquet}
