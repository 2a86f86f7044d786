"""Rows to probe with: those that ship beside this file, or those of a user's file; each line is checked."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from regard.config import build
from regard.data.lines import bare_lines, check_file
from regard.errors import UserError
from regard.files import parse_json

T = TypeVar("T")

SHIPPED = Path(__file__).parent / "data"
"Written for this package: CC0, whoever wants may use them for whatever they want."


@dataclass(frozen=True)
class Rows(Generic[T]):
    name: str
    sha256: str
    "Of the files as they lie there."
    rows: tuple[T, ...]

    def some(self, limit: int | None, seed: int) -> "Rows[T]":
        """At most so many, drawn by the seed and kept in order."""
        if limit is None or limit >= len(self.rows):
            return self
        chosen = np.random.default_rng(seed).choice(len(self.rows), limit, replace=False)
        return Rows(self.name, self.sha256, tuple(self.rows[i] for i in sorted(chosen)))


def read_set(path: Path, kind: type[T]) -> Rows[T]:
    """A file of JSON objects, one a line, each of them a `kind`; blank lines are passed over."""
    check_file(path)
    found = []
    for number, line in enumerate(bare_lines(path), 1):
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        data = parse_json(line, where)
        if not isinstance(data, dict):
            raise UserError(f"{where} holds a JSON {type(data).__name__}", "expected an object {...} on each line")
        try:
            found.append(build(kind, data))
        except UserError as error:
            raise UserError(f"{where}: {error.message}", error.hint) from error
    return named([path], found)


def shipped(name: str, kind: type[T]) -> Rows[T]:
    return read_set(SHIPPED / f"{name}.jsonl", kind)


def named(paths: Sequence[Path], rows: Sequence[T]) -> Rows[T]:
    """The rows under the names of their files; none at all are refused."""
    name = " + ".join(path.name for path in paths)
    if not rows:
        raise UserError(f"{name} has no rows", "give a file with one row a line")
    seen = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            seen.update(hashlib.file_digest(file, "sha256").digest())
    return Rows(name, seen.hexdigest(), tuple(rows))
