"""A run's log is read on from where the page has read to, whatever is in it; nothing outside the given folders is."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from regard.runlog import RunLog, read_log, read_on
from regard.studio.runs import thinned
from studio import houses


def written(folder: Path, steps: int = 10) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.toml").write_text('task = "translate"\n')
    log = RunLog(folder / "log.jsonl")
    log("stage", text="learning a vocabulary")
    for step in range(1, steps + 1):
        log("step", step=step, of=100, loss=5.0 / step, norm=1.0, lr=1e-3, tokens_per_second=100.0, seconds_left=9.0)
    log("valid", step=steps, loss=2.0, BLEU=12.5, best=True, samples=["a dog", "a cat"])
    return folder / "log.jsonl"


def test_only_what_is_new_comes(tmp_path: Path) -> None:
    log = written(tmp_path / "first")
    with houses.client(houses.studio("pt-en", runs=tmp_path)) as client:
        (row,) = client.get("/api/runs").json()["runs"]
        told = {key: row[key] for key in ("name", "state", "task", "step", "of", "score")}
        assert told == {
            "name": "first",
            "state": "running",
            "task": "translate",
            "step": 10,
            "of": 100,
            "score": {"BLEU": 12.5},
        }
        found = client.get(f"/api/runs/{row['id']}/series").json()
        assert found["train"]["step"] == list(range(1, 11))
        assert found["valid"] == {"step": [10], "loss": [2.0], "BLEU": [12.5]}
        assert found["samples"] == [{"step": 10, "texts": ["a dog", "a cat"]}]
        assert [event["kind"] for event in found["events"]] == ["stage"]
        with log.open("a") as file:
            file.write(json.dumps({"kind": "step", "step": 11, "loss": 1.0}) + '\n{"kind": "step", "step": 12')
        more = client.get(f"/api/runs/{row['id']}/series?after={found['cursor']}").json()
        assert (more["train"]["step"], more["reset"]) == ([11], False)  # half a line waits for its end
        assert more["train"]["norm"] == [None]
        log.write_text("")
        assert client.get(f"/api/runs/{row['id']}/series?after={more['cursor']}").json()["reset"] is True


def test_how_a_run_ended_is_told(tmp_path: Path) -> None:
    log = RunLog(written(tmp_path / "one"))
    silent = written(tmp_path / "silent")
    os.utime(silent, (time.time() - 1000,) * 2)
    log("end", how="finished", step=10)
    with houses.client(houses.studio("pt-en", runs=tmp_path)) as client:
        states = {row["name"]: row["state"] for row in client.get("/api/runs").json()["runs"]}
        assert states == {"one": "finished", "silent": "silent"}
        log("step", step=11, of=100, loss=1.0)  # it was resumed
        states = {row["name"]: row["state"] for row in client.get("/api/runs").json()["runs"]}
        assert states["one"] == "running"


def test_nothing_outside_the_folders_is_read(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside" / "run")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside.parent)
    with houses.client(houses.studio("pt-en", runs=inside)) as client:
        assert client.get("/api/runs").json() == {"runs": []}
        for name in ("..", "%2e%2e", "link", "..%2foutside%2frun", "x" * 5000):
            assert client.get(f"/api/runs/{name}/series").status_code in (400, 404)


@pytest.mark.parametrize(
    "line", ["nonsense", "[1]", "null", '{"kind": {"a": 1}}', '{"kind": "step", "loss": NaN}', "[" * 9999]
)
def test_strange_lines_are_passed_over(tmp_path: Path, line: str) -> None:
    log = written(tmp_path / "run")
    with log.open("a") as file:
        file.write(line + "\n")
    with houses.client(houses.studio("pt-en", runs=tmp_path / "run")) as client:
        (row,) = client.get("/api/runs").json()["runs"]
        assert client.get(f"/api/runs/{row['id']}/series").status_code == 200


def test_thinning_keeps_every_spike_and_the_order() -> None:
    events: list[dict[str, Any]] = [{"step": i, "loss": 1.0} for i in range(10_000)]
    events[5_003]["loss"], events[7_001]["loss"] = 99.0, -5.0
    kept = thinned(events, 200)
    assert len(kept) <= 200
    assert {99.0, -5.0} <= {event["loss"] for event in kept}
    steps = [event["step"] for event in kept]
    assert steps == sorted(steps)
    assert thinned(events[:200], 200) == events[:200]


def test_reading_on_in_small_portions_is_reading_all(tmp_path: Path) -> None:
    log, found, start = written(tmp_path / "run"), [], 0
    while True:
        events, end = read_on(log, start, 300)
        if end == start:
            break
        found += events
        start = end
    assert found == list(read_log(log))
