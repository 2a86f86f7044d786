"""Training runs, live: their logs are files, read on from where the page has read to."""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.runlog import read_on
from regard.studio import fields
from regard.studio.problem import Problem
from regard.studio.routes import Asked, House, Route

LOG = "log.jsonl"
AT_ONCE, TAIL = 8 << 20, 1 << 16
"Bytes of a log that are read for one answer, and from its end for the state of a run."
SILENT = 120.0
"Seconds after which a run that did not end is said to be silent."
TRAIN = ("step", "loss", "lr", "norm", "tokens_per_second")
OTHER = {"time", "kind", "step", "samples", "best", "path"}
MAX_RUNS = 200

Event = dict[str, Any]


class Runs:
    """Those in the folders that the server was started with, and nowhere else: an id is looked up, never opened."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [folder.resolve() for folder in folders]

    def find(self) -> dict[str, Path]:
        found = {}
        for folder in self.folders:
            inside = sorted(folder.iterdir()) if folder.is_dir() and not (folder / LOG).is_file() else []
            for place in [folder, *inside][: MAX_RUNS + 1]:
                log = place / LOG
                if log.is_file() and not place.is_symlink() and not log.is_symlink():
                    name = hashlib.sha256(str(place).encode("utf-8", "surrogateescape")).hexdigest()[:12]
                    found[name] = log
        return found

    def log(self, name: str) -> Path:
        found = self.find()
        if name not in found:
            raise Problem(404, "there is no such run", hint="GET /api/runs lists them", code="run_not_found")
        return found[name]


def listing(house: House, asked: Asked, _path: dict[str, str]) -> dict[str, Any]:
    rows = [status(name, log) for name, log in house.runs.find().items()]
    return {"runs": sorted(rows, key=lambda row: -row["changed"])[:MAX_RUNS]}


def status(name: str, log: Path) -> dict[str, Any]:
    """By the last lines of the log."""
    stat = log.stat()
    events, _ = read_on(log, 0, TAIL) if stat.st_size <= TAIL else _tail(log, stat.st_size)
    last = {str(event.get("kind")): event for event in events}
    step, valid, end = (last.get(kind, {}) for kind in ("step", "valid", "end"))
    over = bool(end) and not any(event["kind"] == "step" for event in events[events.index(end) :] if "kind" in event)
    quiet = time.time() - stat.st_mtime > SILENT
    state = ("finished" if end.get("how") == "finished" else "stopped") if over else ("silent" if quiet else "running")
    scores = {key: value for key, value in valid.items() if key not in {*OTHER, "loss"} and isinstance(value, float)}
    return {
        "id": name,
        "name": log.parent.name,
        "state": state,
        "task": _task(log.parent),
        "step": step.get("step", end.get("step")),
        "of": step.get("of"),
        "loss": step.get("loss"),
        "seconds_left": None if over else step.get("seconds_left"),
        "score": scores,
        "changed": stat.st_mtime,
    }


def _tail(log: Path, size: int) -> tuple[list[Event], int]:
    return read_on(log, size - TAIL, TAIL)  # the first line is half a line, and is left out as no JSON


def _task(folder: Path) -> str | None:
    try:
        text = (folder / "run.toml").read_bytes()[:TAIL].decode("utf-8", "replace")
    except OSError:
        return None
    lines = (line.partition("=") for line in text.splitlines() if line.startswith("task"))
    return next((value.strip().strip('"') for key, _, value in lines if key.strip() == "task"), None)


def series(house: House, asked: Asked, path: dict[str, str]) -> dict[str, Any]:
    log = house.runs.log(path["id"])
    size, after = log.stat().st_size, asked["after"]
    reset = after > size
    start = 0 if reset else after
    events, cursor = read_on(log, start, AT_ONCE)
    kinds: dict[str, list[Event]] = {"step": [], "valid": []}
    rest: list[Event] = []
    for event in events:
        kinds.get(str(event.get("kind")), rest).append(event)
    named = {key for event in kinds["valid"] for key, value in event.items() if _is_number(value)} - OTHER
    return {
        "id": path["id"],
        "cursor": cursor,
        "more": cursor < size and cursor > start,
        "reset": reset,
        "status": status(path["id"], log),
        "train": _columns(thinned(kinds["step"], asked["max"]), TRAIN),
        "valid": _columns(thinned(kinds["valid"], asked["max"]), ("step", "loss", *sorted(named - {"loss"}))),
        "samples": [
            {"step": event.get("step"), "texts": [str(text)[:2000] for text in event["samples"][:20]]}
            for event in kinds["valid"][-200:]
            if isinstance(event.get("samples"), list)
        ],
        "events": [_told(event) for event in rest[-200:]],
    }


def _told(event: Event) -> dict[str, Any]:
    text = event.get("text") or event.get("how") or ""
    more = {key: value for key, value in event.items() if key not in ("time", "kind", "text") and _is_number(value)}
    return {"time": event.get("time"), "kind": str(event.get("kind")), "text": str(text)[:500], **more}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _columns(events: Sequence[Event], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [event.get(name) if _is_number(event.get(name)) else None for event in events] for name in names}


def thinned(events: list[Event], most: int) -> list[Event]:
    """Of each stretch the lowest and the highest loss, in their order: no spike is lost."""
    if len(events) <= most:
        return events
    n_stretches = max(1, most // 2)
    kept = []
    for i in range(n_stretches):
        stretch = events[i * len(events) // n_stretches : (i + 1) * len(events) // n_stretches]
        losses = [float(event["loss"]) if _is_number(event.get("loss")) else 0.0 for event in stretch]
        ends = {losses.index(min(losses)), losses.index(max(losses))}
        kept += [stretch[at] for at in sorted(ends)]
    return kept


ROUTES = [
    Route("/api/runs", {}, "The training runs here", direct=listing, reads_files=True, method="GET"),
    Route(
        "/api/runs/{id}/series",
        {"after": fields.whole(0, 1 << 50, default=0), "max": fields.whole(2, 20_000, default=2000)},
        "What is new in a run's log",
        direct=series,
        reads_files=True,
        method="GET",
    ),
]
