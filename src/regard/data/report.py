"""What to know about the data before training on it: sizes, holes, duplicates, and what train and test share.

A sentence of the test set that was trained on, even on one side only, makes a score a lie. Texts are
compared by 64-bit hashes, which wait in temporary files in sorted runs; slices of all runs that hold the
same range of hashes are compared in turn, so a large corpus takes no more memory than a small one.
"""

import contextlib
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

import numpy as np

from regard.data.corpus import Place, Row, Source, placed_rows
from regard.data.mapped import give_back
from regard.data.shards import where
from regard.errors import UserError

RUN = 1 << 17
"Hashes sorted at a time, and about as many compared at a time."
MOST_LABELS = 12
"Labels that are shown; the file of the run has all."
MOST_HOLES = 3
"Rows without a text that are named, of each set."
FEW_NUMBERS = 6
"So many different numbers may well be names of something."


@dataclass(frozen=True)
class ColumnReport:
    empty: int
    "Fields without text."
    longest: int
    "In characters (of a picture: bytes), as are mean and median; empty fields do not count."
    mean: float
    median: int


@dataclass(frozen=True)
class SetReport:
    rows: int
    duplicates: int
    "Rows that stood before, word for word, in the same set."
    columns: tuple[ColumnReport, ...]
    holes: tuple[str, ...] = ()
    "Where the first rows stand that have something, but not every text."
    n_holes: int = 0


@dataclass(frozen=True)
class Overlap:
    """Rows of a set whose text stands in train too: for each column, and on all sides at once."""

    columns: tuple[int, ...]
    rows: int
    of: int
    "Rows of the set, which the shares refer to."

    def to_dict(self) -> dict[str, Any]:
        shares = {"column_shares": [count / max(self.of, 1) for count in self.columns]}
        return asdict(self) | shares | {"row_share": self.rows / max(self.of, 1)}


@dataclass(frozen=True)
class Report:
    sets: Mapping[str, SetReport]
    overlaps: Mapping[str, Overlap]
    labels: Mapping[str, int] = field(default_factory=dict)
    "How often each is given in train."
    of_pictures: bool = False

    def to_dict(self) -> dict[str, Any]:
        sets = {name: asdict(one) for name, one in self.sets.items()}
        overlaps = {name: one.to_dict() for name, one in self.overlaps.items()}
        return {"sets": sets, "overlaps": overlaps, "labels": dict(self.labels)}

    def __str__(self) -> str:
        table = [["set", "rows", "twice", "column", "empty", "longest", "mean", "median"]]
        for name, one in self.sets.items():
            for number, column in enumerate(one.columns, 1):
                start = [name, f"{one.rows:,}", f"{one.duplicates:,}"] if number == 1 else ["", "", ""]
                sizes = [f"{column.empty:,}", f"{column.longest:,}", f"{column.mean:.1f}", str(column.median)]
                table.append([*start, str(number), *sizes])
        unit = "bytes of a picture" if self.of_pictures else "characters"
        lines = [*_aligned(table), f"(longest, mean and median: in {unit}; twice: rows that stood before)"]
        return "\n".join([*lines, *self._holes(), *_aligned(self._shared()), *self._balance()])

    def _holes(self) -> list[str]:
        found = [(name, one.holes, one.n_holes - len(one.holes)) for name, one in self.sets.items() if one.holes]
        shown = [f"{name}: {'; '.join(holes)}{f'; {more:,} more' * (more > 0)}" for name, holes, more in found]
        what = (
            "empty pictures, which training refuses,"
            if self.of_pictures
            else "rows without a text, which are left out,"
        )
        return [f"{what} in {each}" for each in shown]

    def _balance(self) -> list[str]:
        total = sum(self.labels.values())
        often = sorted(self.labels.items(), key=lambda item: -item[1])
        shown = [f"{label} {count:,} ({count / total:.1%})" for label, count in often[:MOST_LABELS]]
        more = f", and {len(often) - MOST_LABELS} more" if len(often) > MOST_LABELS else ""
        lines = [f"labels in train: {', '.join(shown)}{more}"] if often else []
        may_be_values = len(often) > FEW_NUMBERS and not self.of_pictures
        if may_be_values and all(re.fullmatch(r"[-+]?\d+([.,]\d+)?", label.strip()) for label, _ in often):
            lines.append("all labels are numbers, and are learnt as names; to learn a value: --set data.numbers=true")
        return lines

    def _shared(self) -> list[list[str]]:
        n_columns = max((len(shared.columns) for shared in self.overlaps.values()), default=0)
        table = [["in train too", *(f"column {i}" for i in range(1, n_columns + 1)), "whole rows"]]
        for name, shared in self.overlaps.items():
            counts = [*shared.columns, *[0] * (n_columns - len(shared.columns)), shared.rows]  # an empty set has none
            table.append([name, *(f"{count:,} ({count / max(shared.of, 1):.1%})" for count in counts)])
        return table if self.overlaps else []


def report(
    train: Source, others: Mapping[str, Source], *, columns: Sequence[str] | None = None, n_texts: int | None = None
) -> Report:
    """`n_texts` says where the texts of a row end, as in `row[:n_texts]`: labels are not compared."""
    with contextlib.ExitStack() as files:
        sources = {"train": train, **others}
        texts = {name: placed_rows(source, columns=columns) for name, source in sources.items()}
        scans = {name: _Scan(rows, n_texts, files) for name, rows in texts.items()}
        widths = {name: len(scan.lengths) for name, scan in scans.items() if scan.n_rows}
        if len(set(widths.values())) > 1:
            shown = ", ".join(f"{name} has {width}" for name, width in widths.items())
            raise UserError(f"the sets differ in columns: {shown}", "name the `columns` to compare")
        n_parts = max((hashes.n_runs for scan in scans.values() for hashes in scan.hashes), default=0)
        for part in range(n_parts):
            _compare(scans, part, n_parts)
    sets = {name: scan.result() for name, scan in scans.items()}
    return Report(sets, {name: scans[name].overlap() for name in others})


def _compare(scans: Mapping[str, "_Scan"], part: int, n_parts: int) -> None:
    """Count, in one range of hashes, what stands twice in a set and what train and another set share."""
    trained = [hashes.part(part, n_parts) for hashes in scans["train"].hashes]
    for name, scan in scans.items():
        found = trained if name == "train" else [hashes.part(part, n_parts) for hashes in scan.hashes]
        if found:
            scan.duplicates += len(found[-1]) - len(np.unique(found[-1]))
        for i, (ours, theirs) in enumerate(zip(found, trained, strict=False)):
            scan.shared[i] += int(np.isin(ours, theirs).sum()) if name != "train" else 0


class _Scan:
    """One pass over a set: lengths counted, hashes laid aside, one file for each column and one for whole rows."""

    def __init__(self, rows: Iterator[tuple[Place, Row]], n_texts: int | None, files: contextlib.ExitStack) -> None:
        self.n_rows = self.duplicates = self.n_holes = 0
        self.holes: list[str] = []
        self.lengths: list[Counter[int]] = []
        self.hashes: list[_Hashes] = []
        for place, row in rows:
            texts = row[:n_texts]
            if not self.hashes:
                self.lengths = [Counter() for _ in texts]
                self.hashes = [_Hashes(files) for _ in range(len(texts) + 1)]
            self.n_rows += 1
            if not self._add(texts) and any(map(str.strip, row)):
                self.n_holes += 1
                self.holes += [where(place)] * (self.n_holes <= MOST_HOLES)
        self.shared = [0] * max(len(self.hashes), 1)

    def _add(self, row: Row) -> bool:
        """Whether there is text in every field."""
        digests = []
        for text, lengths, hashes in zip(row, self.lengths, self.hashes, strict=False):
            lengths[len(text) if text.strip() else 0] += 1
            if text.strip():
                digests.append(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
                hashes.add(digests[-1])
        if len(digests) < len(row):  # two holes are not the same sentence
            return False
        self.hashes[-1].add(hashlib.blake2b(b"".join(digests), digest_size=8).digest())
        return True

    def result(self) -> SetReport:
        columns = tuple(map(_column_report, self.lengths))
        return SetReport(self.n_rows, self.duplicates, columns, tuple(self.holes), self.n_holes)

    def overlap(self) -> Overlap:
        return Overlap(tuple(self.shared[:-1]), self.shared[-1], self.n_rows)


def _column_report(counts: Counter[int]) -> ColumnReport:
    empty = counts.pop(0, 0)
    lengths = sorted(counts)
    ends = np.cumsum([counts[length] for length in lengths])
    if not lengths:
        return ColumnReport(empty, 0, 0.0, 0)
    mean = sum(length * counts[length] for length in lengths) / int(ends[-1])
    return ColumnReport(empty, lengths[-1], mean, lengths[int(np.searchsorted(ends, ends[-1] / 2))])


class _Hashes:
    """64-bit hashes in a temporary file, as sorted runs of equal size."""

    def __init__(self, files: contextlib.ExitStack) -> None:
        self._file: IO[bytes] = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._pending = bytearray()
        self.n = 0

    @property
    def n_runs(self) -> int:
        return -(-self.n // RUN)

    def add(self, digest: bytes) -> None:
        self._pending += digest
        self.n += 1
        if self.n % RUN == 0:
            self._flush()

    def _flush(self) -> None:
        self._file.write(np.sort(np.frombuffer(self._pending, dtype=np.uint64)).tobytes())
        self._file.flush()
        self._pending = bytearray()

    def part(self, part: int, n_parts: int) -> np.ndarray:
        """All hashes of one of `n_parts` equal ranges."""
        if self._pending:
            self._flush()
        if not self.n:
            return np.empty(0, dtype=np.uint64)
        every = np.memmap(self._file, dtype=np.uint64, mode="r", shape=(self.n,))
        low, high = (np.uint64(min((edge << 64) // n_parts, (1 << 64) - 1)) for edge in (part, part + 1))
        found = []
        for start in range(0, self.n, RUN):
            run = every[start : start + RUN]
            end = len(run) if part + 1 == n_parts else np.searchsorted(run, high)
            found.append(np.array(run[np.searchsorted(run, low) : end]))
            give_back(every)
        return np.concatenate(found)


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
