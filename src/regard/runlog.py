"""A run's log: one JSON object a line. Training writes it; the command line and the studio read it."""

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class RunLog:
    """Appends events; a full disk or a removed folder never stops the training that is logged."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, kind: str, **values: Any) -> None:
        line = json.dumps({"time": round(time.time(), 3), "kind": kind, **values}, ensure_ascii=False)
        try:
            # The name of a file need not be UTF-8; a backslash and the number is how JSON writes what is not.
            with self.path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(line + "\n")
        except OSError:
            return


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """All whole lines; the last may be half-written when the run was killed."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            event = _event(line)
            if event is not None:
                yield event


def read_on(path: Path, start: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """The whole lines from byte `start` on, `limit` bytes at most, and the byte where the next will begin."""
    with path.open("rb") as file:
        file.seek(start)
        lines = file.read(limit)
    lines = lines[: lines.rfind(b"\n") + 1]
    events = (_event(line.decode("utf-8", "replace")) for line in lines.splitlines())
    return [event for event in events if event is not None], start + len(lines)


def is_race(path: Path) -> bool:
    """Whether `regard race --json` wrote this file, by how it begins."""
    try:
        with path.open("rb") if path.is_file() else io.BytesIO() as file:  # a pipe has no end
            return file.read(10) == b'{"race": 1'
    except OSError:
        return False


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
