"""Rows of text out of files, one at a time: no file is held in memory, but for one JSON document (SQuAD's).

Several text files are the columns of one table, line by line; several tables follow each other.
Without `columns` every line of a table is a row; with them its first line is the header that names them, unless
they are numbers: `#2` is the second column of a table without a header.
CoNLL files have the columns words and tags; SQuAD's have question, context, answer, start, id and title.
Only "\\n" ends a line, so U+2028 and NUL stay inside; the "\\r" of Windows and a byte order mark are
taken off. Blank lines are rows of empty fields: to drop them is a decision, and it is counted (shards).
"""

import csv
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.conll import read_conll
from regard.data.lines import BROKEN, MAX_LINE, bare_lines, check_file, full_lines, opened
from regard.data.pictures import is_pictures, read_pictures
from regard.data.squad import read_squad
from regard.data.stretch import Stretch
from regard.errors import UserError
from regard.files import parse_json

Row = tuple[str, ...]
Place = tuple[Path, int]
"A file and a line of it, counted from 1; 0 where the whole file is the row."
Numbered = Iterator[tuple[int, Row]]
"Rows with the lines they end on; a blank line is an empty row, until it is known how many fields it has."

csv.field_size_limit(MAX_LINE)  # its own is 128 kB, less than a long text; whole rows are bounded below


@dataclass(frozen=True)
class Part:
    """Of these files the rows of which one field has a hash in a range of 0 to 1: equal texts never part."""

    paths: tuple[Path, ...]
    low: float
    high: float
    field: int = 0

    @property
    def rules(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high, "field": self.field}

    def holds(self, row: Row) -> bool:
        return self.low <= self.place_of(row) < self.high

    def place_of(self, row: Row) -> float:
        field = min(self.field, len(row) - 1)  # a row that is too short is refused when it is read, with its place
        text = row[field].strip().encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64


Source = Path | Sequence[Path] | Part | Stretch


def read_rows(source: Source, *, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """All rows, each with the same number of fields; `columns` picks and orders them by name."""
    return (row for _, row in placed_rows(source, columns=columns))


def placed_rows(source: Source, *, columns: Sequence[str] | None = None) -> Iterator[tuple[Place, Row]]:
    """Each row with the file and the line where it ends, for whoever has to complain about it."""
    rows = source.pieces() if isinstance(source, Stretch) else _placed(files_of(source), columns)
    return ((place, row) for place, row in rows if source.holds(row)) if isinstance(source, Part) else rows


def _placed(paths: list[Path], columns: Sequence[str] | None) -> Iterator[tuple[Place, Row]]:
    kinds = [kind_of(path) for path in paths]
    if is_pictures(paths[0]):
        if columns is not None:
            raise UserError(f"{paths[0]} holds pictures, which have no columns", "leave them out")
        yield from read_pictures(paths)
    elif not any(kind in TABLES for kind in kinds):
        if columns is not None:
            raise UserError(f"{paths[0]} has no named columns", "leave `columns` out: each text file is one column")
        yield from (((paths[0], number), row) for number, row in enumerate(_parallel(paths), 1))
    elif all(kind in TABLES for kind in kinds):
        names = list(columns) if columns is not None else None
        yield from _even((path, TABLES[kind](path, names)) for path, kind in zip(paths, kinds, strict=True))
    else:
        raise UserError(f"tables beside plain text: {', '.join(map(str, paths))}", "give one kind of file")


def files_of(source: Source) -> list[Path]:
    given = source.paths if isinstance(source, Part | Stretch) else source
    paths = [given] if isinstance(given, Path) else list(given)
    if not paths:
        raise UserError("no file to read", "name at least one")
    for path in paths:
        if not is_pictures(path):
            check_file(path)
    return paths


def kind_of(path: Path) -> str:
    """The ending that counts: .tsv of a.tsv.gz."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _even(tables: Iterable[tuple[Path, Numbered]]) -> Iterator[tuple[Place, Row]]:
    """Rows of equal width; blank ones get theirs, and their place, from the next row that has something."""
    n_fields, blank, place = 0, 0, (Path(), 0)
    for path, rows in tables:
        for number, row in rows:
            place = path, number
            if not row:
                blank += 1
                continue
            n_fields = n_fields or len(row)
            if len(row) != n_fields:
                raise UserError(f"{path}, line {number} has {len(row)} fields", f"expected {n_fields}, as before")
            yield from itertools.repeat((place, ("",) * n_fields), blank)
            yield place, row
            blank = 0
    yield from itertools.repeat((place, ("",) * (n_fields or 1)), blank)


def _parallel(paths: Sequence[Path]) -> Iterator[Row]:
    readers = [bare_lines(path) for path in paths]
    for number, row in enumerate(itertools.zip_longest(*readers)):
        if None in row:
            rest = [(line is not None) + sum(1 for _ in reader) for line, reader in zip(row, readers, strict=True)]
            counts = ", ".join(f"{path} {number + more:,}" for path, more in zip(paths, rest, strict=True))
            raise UserError(f"the files differ in lines: {counts}", "line n of each must belong together")
        yield row


# ---- tables


def _tsv(path: Path, columns: list[str] | None) -> Numbered:
    lines = enumerate(bare_lines(path), 1)
    return _picked(path, ((number, tuple(line.split("\t")) if line else ()) for number, line in lines), columns)


def _csv(path: Path, columns: list[str] | None) -> Numbered:
    return _picked(path, _csv_rows(path), columns)


def _csv_rows(path: Path) -> Numbered:
    taken = 0

    def bounded() -> Iterator[str]:  # quotes may join any number of lines into one row
        nonlocal taken
        for line in full_lines(path):
            taken += len(line)
            if taken > MAX_LINE:
                raise csv.Error("the row does not end")
            yield line

    reader = csv.reader(bounded(), strict=True)
    try:
        for row in reader:
            yield reader.line_num, tuple(row)
            taken = 0
    except csv.Error as error:
        hint = "its lines end in CR alone: save it with LF" if "new-line" in str(error) else "is a quote left open?"
        raise UserError(f"{path}, line {reader.line_num}: {error}", hint) from error


def _picked(path: Path, rows: Numbered, columns: list[str] | None) -> Numbered:
    """The named columns of a table whose first row is its header, or the numbered ones of a table without."""
    if columns is None:
        yield from rows
        return
    if numbered := all(re.fullmatch("#[1-9][0-9]{0,3}", name) for name in columns):
        first = next(rows, (1, ()))
        rows, header = itertools.chain([first], rows), tuple(f"#{i}" for i in range(1, len(first[1]) + 1))
    else:
        header = next(rows, (1, ()))[1]
    places = [_place(str(path), name, header) for name in columns]
    for number, row in rows:
        if row and len(row) != len(header):
            hint = f"expected {len(header)}, as in its {'first line' if numbered else 'header'}"
            raise UserError(f"{path}, line {number} has {len(row)} fields", hint)
        yield number, tuple(row[place] for place in places) if row else ()


def _place(where: str, name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise UserError(f"{where} has no column '{name}'", f"its columns: {', '.join(names)[:1000] or 'none'}")
    if names.count(name) > 1:
        hint = "give one of them another name, or leave the header out and count: '#1'"
        raise UserError(f"{where} has {names.count(name)} columns called '{name}'", hint)
    return names.index(name)


def _jsonl(path: Path, columns: list[str] | None) -> Numbered:
    for number, line in enumerate(bare_lines(path), 1):
        where = f"{path}, line {number}"
        found = parse_json(line, where) if line.strip() else {}
        if not isinstance(found, dict):
            raise UserError(f"{where} holds a JSON {type(found).__name__}", "expected an object {...} on each line")
        columns = columns or list(found)  # the first object names those of a file without names
        for name in columns if found else ():
            _place(where, name, list(found))
        yield number, tuple(_text(found[name], where, name) for name in columns) if found else ()


def _text(value: Any, where: str, name: str) -> str:
    """Text as it is, numbers as they are written, nothing as empty."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, int | float):
        return json.dumps(value)
    raise UserError(f"{where}: '{name}' is of type {type(value).__name__}", "expected text or a number")


def arrow_for(path: Path) -> tuple[Any, Any]:
    """pyarrow and its part for Parquet."""
    try:
        import pyarrow as arrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.parquet as parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise UserError(f"{path} needs pyarrow", "pip install pyarrow") from error
    return arrow, parquet


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    arrow, parquet = arrow_for(path)
    try:
        with opened(path) as file, parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as table:
            yield table
    except arrow.ArrowException as error:
        raise UserError(f"{path} is not a whole parquet file: {error}", BROKEN) from error


def n_rows(path: Path) -> int:
    """Of a Parquet file, which says so itself."""
    with _parquet_file(path) as table:
        return int(table.metadata.num_rows)


def _parquet(path: Path, columns: list[str] | None) -> Numbered:
    with _parquet_file(path) as table:
        schema = table.schema_arrow
        names = columns or schema.names
        for name in names:
            _check_plain(path, schema.field(_place(str(path), name, schema.names)), arrow_for(path)[0].types)
        number = 0
        for batch in table.iter_batches(batch_size=256, columns=names):
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                number += 1
                yield number, tuple(map(_text, row, itertools.repeat(f"{path}, row {number}"), names))


def _check_plain(path: Path, field: Any, types: Any) -> None:
    """A pickled or an extension column could hold anything."""
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    if not any(test(kind) for test in (*plain, types.is_null)):
        raise UserError(f"{path}, column '{field.name}' is of type {field.type}", "expected text or numbers")


# ---- formats whose columns have names of their own


def _conll(path: Path, columns: list[str] | None) -> Numbered:
    return _chosen(path, ("words", "tags"), read_conll(path), columns)


def _squad(path: Path, columns: list[str] | None) -> Numbered:
    names = ("question", "context", "answer", "start", "id", "title")
    return _chosen(path, names, enumerate((each.row for each in read_squad(path)), 1), columns)


def _chosen(path: Path, names: Sequence[str], rows: Iterable[tuple[int, Row]], columns: list[str] | None) -> Numbered:
    places = [_place(str(path), name, names) for name in columns or names]
    for number, row in rows:
        yield number, tuple(row[place] for place in places)


TABLES = {".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet, ".json": _squad}
TABLES |= dict.fromkeys((".conll", ".iob", ".bio"), _conll)


def names_of(path: Path) -> list[str]:
    """The names of a table's columns: the first line of a .csv or .tsv, the keys of a .jsonl; none for other files."""
    kind = kind_of(path)
    if kind in (".csv", ".tsv"):
        return [name for row in itertools.islice(read_rows(path), 1) for name in row]
    if kind == ".jsonl":
        first = next((line for line in bare_lines(path) if line.strip()), "{}")
        found = parse_json(first, f"{path}, line 1")
        return list(found) if isinstance(found, dict) else []
    if kind == ".parquet":
        with _parquet_file(path) as table:
            return list(table.schema_arrow.names)
    return []
