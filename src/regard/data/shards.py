"""A corpus as ids on disk: tokenised once, read through memory maps ever after.

A folder holds `ids.bin` (all ids, row after row, column after column), `index.bin` (where each row begins,
and how many ids each of its columns has) and `meta.json`, which says what they were made from.
It appears whole or not at all, and is made anew only when the text, the tokenizer or a rule has changed.
"""

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np

from regard.config import build, require
from regard.data.corpus import Part, Place, Row, Source, files_of, kind_of, placed_rows
from regard.data.examples import Encoded, Examples
from regard.data.mapped import take
from regard.data.pictures import digest, is_pictures
from regard.data.stretch import Stretch
from regard.errors import UserError
from regard.files import flush, read_json_object, write_json

VERSION = 2
BATCH_ROWS, BATCH_CHARS = 1_000, 1_000_000
"Rows and characters tokenised at once; the second holds when lines are very long."

STALE_SECONDS = 3600

Placed = tuple[Place, Row]


@dataclass(frozen=True)
class Stats:
    """What became of the rows of the source."""

    rows: int = 0
    "Rows read."
    kept: int = 0
    empty: int = 0
    "Dropped: a side without text."
    too_long: int = 0
    "Dropped or cut: a side with more than `max_len` tokens."
    tokens: tuple[int, ...] = ()
    "Kept, for each column."


@dataclass(frozen=True)
class Meta:
    version: int
    fingerprint: str
    dtype: Literal["uint16", "uint32"]
    limits: tuple[int, ...]
    "Of the numbers in each column."
    stats: Stats


class Shards:
    """Rows of ids, in the order of the source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        meta = build(Meta, read_json_object(folder / "meta.json"), str(folder / "meta.json"))
        require(meta.version == VERSION, f"{folder} is of version {meta.version}", "delete it; it is made again")
        self.fingerprint, self.stats, self._limits = meta.fingerprint, meta.stats, meta.limits
        self._ids = self._open("ids.bin", meta.dtype, sum(meta.stats.tokens))
        self._index = self._open("index.bin", _index_type(len(meta.limits)), meta.stats.kept)
        self.lengths = self._index["lengths"]
        "Ids in each row and column, (n_rows, n_columns); a view of a memory map."

    def _open(self, name: str, dtype: np.typing.DTypeLike, count: int) -> np.ndarray:
        path, size = self.folder / name, count * np.dtype(dtype).itemsize
        found = path.stat().st_size if path.is_file() else 0
        if found != size or not size:
            raise UserError(f"{path} has {found:,} bytes, expected {size:,}", f"delete {self.folder}; it is made again")
        return np.memmap(path, dtype=dtype, mode="r", shape=(count,))

    def __len__(self) -> int:
        return len(self._index)

    def row(self, i: int) -> tuple[np.ndarray, ...]:
        return tuple(ids for ids, _ in self.gather(np.array([range(len(self))[i]])))

    def gather(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each column: the ids of all these rows one after another, and how many each row has."""
        found = take(self._index, rows)
        lengths, starts = found["lengths"].astype(np.int64), found["start"]
        sizes = lengths.sum(axis=1)
        # Checked before memory is taken for them, and before an id without an embedding stops a run midway.
        self._check(rows, (lengths >= 0).all(axis=1) & (starts >= 0) & (starts + sizes <= len(self._ids)))
        ids = take(self._ids, np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum()))
        columns = np.repeat(np.tile(np.arange(lengths.shape[1]), len(rows)), lengths.ravel())
        self._check(np.repeat(rows, sizes), ids < np.array(self._limits)[columns])
        return [(ids[columns == column], lengths[:, column]) for column in range(lengths.shape[1])]

    def _check(self, rows: np.ndarray, good: np.ndarray) -> None:
        if not good.all():
            row = rows[np.argmin(good)]
            raise UserError(f"{self.folder} is damaged: row {row} is impossible", "delete it; it is made again")


def _index_type(n_columns: int) -> np.dtype[np.void]:
    return np.dtype([("start", np.int64), ("lengths", np.int32, (n_columns,))])


def prepare(
    source: Source,
    examples: Examples,
    folder: Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Shards:
    """Turn all rows into `examples`. `progress` hears how many rows have been read, 0 first, and nothing where all was
    done before."""
    fingerprint = _fingerprint(source, examples, columns)
    if (found := _reusable(folder, fingerprint)) is not None:
        return found
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(6)}.tmp")
    writer = _Writer(examples, ", ".join(map(str, files_of(source))))
    if isinstance(source, Part | Stretch):
        writer.name, writer.hint = f"a share of {writer.name}", "change data.hold_out, or name a file with data.valid"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        temporary.mkdir()
        if progress is not None:
            progress(0)
        stats = writer.write(temporary, placed_rows(source, columns=columns), progress)
        write_json(temporary / "meta.json", asdict(Meta(VERSION, fingerprint, writer.dtype, examples.limits, stats)))
        _publish(temporary, folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}", "is there room, and the right?") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Shards(folder)


def _fingerprint(source: Source, examples: Examples, columns: Sequence[str] | None) -> str:
    """Equal for equal contents, wherever the files stand."""
    paths = files_of(source)
    rules = {"version": VERSION, "columns": columns and list(columns), **examples.rules}
    if isinstance(source, Part | Stretch):
        rules |= source.rules
    digests = [hashlib.sha256(json.dumps([rules, [kind_of(path) for path in paths]]).encode()).digest()]
    digests += [digest(path) if is_pictures(path) else _digest(path) for path in paths]
    for tokenizer in examples.tokenizers:
        with tempfile.TemporaryDirectory() as name:  # what it saves is all that it is
            tokenizer.save(Path(name))
            digests += [_digest(path) for path in sorted(Path(name).iterdir())]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", "check the file and its rights") from error


def _reusable(folder: Path, fingerprint: str) -> Shards | None:
    """What stands there, if it was made from the same; a folder of anything else is not ours to replace."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / "meta.json").is_file():
        raise UserError(f"{folder} exists and holds no prepared text", "name another folder")
    try:
        found = Shards(folder)
    except UserError:  # damaged, or of another version
        return None
    return found if found.fingerprint == fingerprint else None


def _sweep(folder: Path) -> None:
    """Remove what a killed process left; one that is alive has written within the hour."""
    for left in folder.parent.iterdir():
        if left.name.startswith(f".{folder.name}.") and left.suffix in (".tmp", ".old"):
            newest = max(path.stat().st_mtime for path in (left, *left.iterdir()))
            if time.time() - newest > STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _publish(temporary: Path, folder: Path) -> None:
    """Put the finished folder in its place; a reader of the old one keeps its open files."""
    old = temporary.with_suffix(".old")
    if folder.exists():
        os.replace(folder, old)
    os.replace(temporary, folder)
    shutil.rmtree(old, ignore_errors=True)
    flush(folder.parent)


class _Writer:
    """Rows of text into the two files, counted; `name` stands for the source in errors."""

    def __init__(self, examples: Examples, name: str) -> None:
        self.examples, self.name, self.hint = examples, name, "is it the right file?"
        self.dtype: Literal["uint16", "uint32"] = "uint32" if max(examples.limits) > 1 << 16 else "uint16"
        self.n_rows = self.n_kept = self.n_empty = self.n_too_long = 0
        self.shortest = sys.maxsize
        "Tokens of the shortest row that was too long, on its longer side."
        self.n_tokens = np.zeros(len(examples.limits), dtype=np.int64)

    def write(self, folder: Path, rows: Iterator[Placed], progress: Callable[[int], None] | None) -> Stats:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context((folder / name).open("wb")) for name in ("ids.bin", "index.bin")]
            for batch in _batches(rows):
                self._write(batch, files)
                if progress is not None:
                    progress(self.n_rows)
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        lost = f"{self.n_rows:,} rows, {self.n_empty:,} empty, {self.n_too_long:,} too long"
        hint = self.hint
        if self.n_too_long:
            limit = self.examples.rules["max_len"]
            hint = f"data.max_len is {limit:,}, and the shortest row has {self.shortest:,} tokens: raise data.max_len"
        require(self.n_kept > 0, f"{self.name} has no row to learn from: {lost}", hint)
        return Stats(self.n_rows, self.n_kept, self.n_empty, self.n_too_long, tuple(self.n_tokens.tolist()))

    def _write(self, batch: list[Placed], files: Sequence[IO[bytes]]) -> None:
        kept = [example for encoded in self._encoded(batch) for example in encoded.examples]
        self.n_rows += len(batch)
        if not kept:
            return
        index = np.empty(len(kept), dtype=_index_type(len(self.examples.limits)))
        index["lengths"] = lengths = np.array([[len(ids) for ids in row] for row in kept])
        sizes = lengths.sum(axis=1)
        index["start"] = self.n_tokens.sum() + np.cumsum(sizes) - sizes
        ids = np.fromiter(itertools.chain.from_iterable(itertools.chain.from_iterable(kept)), dtype=self.dtype)
        files[0].write(ids.tobytes())
        files[1].write(index.tobytes())
        self.n_kept += len(kept)
        self.n_tokens += lengths.sum(axis=0)

    def _encoded(self, batch: list[Placed]) -> Iterator[Encoded]:
        for encoded in self._tried(batch):
            self.n_empty += encoded.is_empty
            if encoded.n_too_many:
                self.n_too_long += 1
                self.shortest = min(self.shortest, encoded.n_too_many)
            yield encoded

    def _tried(self, batch: list[Placed]) -> list[Encoded]:
        try:
            return list(self.examples([row for _, row in batch]))
        except UserError:  # one of them: find out which
            for place, row in batch:
                try:
                    list(self.examples([row]))
                except UserError as error:
                    raise UserError(f"{where(place)}: {error.message}", error.hint) from error
            raise


def where(place: Place) -> str:
    """For a message: the rows of one document, and of a file that is no text, have numbers and no lines."""
    path, number = place
    noun = "row" if kind_of(path) in (".json", ".parquet") else "line"
    return f"{path}, {noun} {number}" if number else str(path)


def _batches(rows: Iterator[Placed]) -> Iterator[list[Placed]]:
    batch: list[Placed] = []
    n_chars = 0
    for place, row in rows:
        batch.append((place, row))
        n_chars += sum(map(len, row))
        if len(batch) == BATCH_ROWS or n_chars >= BATCH_CHARS:
            yield batch
            batch, n_chars = [], 0
    if batch:
        yield batch
