"""Text files read as one long text each, line ends and all: for models that learn from a stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.lines import full_lines

PIECE = 1 << 17
"Characters read at a time, and as many more as the last line has: a piece ends with a line."


@dataclass(frozen=True)
class Stretch:
    """Of each file, the characters from one share of them to another."""

    paths: tuple[Path, ...]
    low: float = 0.0
    high: float = 1.0

    @property
    def rules(self) -> dict[str, Any]:
        return {"stretch": [self.low, self.high]}

    def pieces(self) -> Iterator[tuple[tuple[Path, int], tuple[str, ...]]]:
        """Rows of one field, each with the file and the line where it ends."""
        for path in self.paths:
            count = 0 if (self.low, self.high) == (0.0, 1.0) else sum(map(len, full_lines(path)))
            first, last = int(count * self.low), int(count * self.high) if count else None
            yield from (((path, number), (text,)) for number, text in _cut(path, first, last))


def _cut(path: Path, first: int, last: int | None) -> Iterator[tuple[int, str]]:
    held: list[str] = []
    at = size = number = 0
    for number, line in enumerate(full_lines(path), 1):
        wanted = line[max(first - at, 0) : None if last is None else max(last - at, 0)]
        at += len(line)
        if wanted:
            held.append(wanted)
            size += len(wanted)
        if size >= PIECE:
            yield number, "".join(held)
            held, size = [], 0
    if held:
        yield number, "".join(held)
