"""A ladder is eight rungs, one change each; killed or stopped anywhere, it ends as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from regard.errors import UserError
from regard.lab import ladder as climbing
from regard.lab.ladder import RUNGS, Done, Ladder, Wanted, Watch, check, part
from regard.lab.ladder_report import describe, drawing, markdown, write_report
from regard.runlog import read_log
from regard.training.folder import read_run
from training.runs import write_pairs

SMALL = ("model.d_model=16", "model.n_layers=1", "data.max_len=30", "valid.sentences=4")
TIMES = ("minutes", "joules")


def wanted(folder: Path, **choices: Any) -> Wanted:
    return Wanted(train=(str(folder / "train.de"), str(folder / "train.en")), changes=SMALL, **{"steps": 3, **choices})


def climb(ladder: Ladder, stop: Event | None = None, listeners: Any = ()) -> list[Done]:
    return list(ladder.climb(list(listeners), lambda text: None, stop or Event()))


def plain(done: list[Done]) -> list[Done]:
    return [{key: value for key, value in each.items() if key not in TIMES} for each in done]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(folder)
    return folder


@pytest.fixture(scope="module")
def whole(home: Path) -> Ladder:
    ladder = Ladder(wanted(home), home / "whole")
    climb(ladder)
    return ladder


def test_every_rung_changes_what_its_name_says_and_nothing_else(whole: Ladder) -> None:
    assert [done["rung"] for done in whole.done] == [rung.name for rung in RUNGS]
    changed = {done["rung"]: done["changed"] for done in whole.done}
    assert changed["lstm"] == ['model.preset = "recurrent-lstm"']
    assert changed["attention"] == ['model.preset = "recurrent-lstm-dot"']
    assert {key.split()[0].partition(".")[0] for key in changed["transformer"]} == {"model"}
    assert changed["bpe"] == ['text.kind = "bpe"']
    assert changed["smoothing"] == ["train.average = 5", "train.label_smoothing = 0.1"]
    runs = [read_run(whole.folder_of(number) / "run.toml") for number in range(1, 9)]
    assert [run.train.steps for run in runs] == [3] * 8
    assert len({str(run.data) for run in runs}) == 1


def test_rungs_that_train_nothing_use_the_run_before(whole: Ladder) -> None:
    assert [done["run"] for done in whole.done[5:]] == ["6-smoothing"] * 3
    assert ["minutes" in done for done in whole.done] == [True] * 6 + [False] * 2


@pytest.mark.slow
def test_killed_between_rungs_and_climbed_again_it_is_the_same_ladder(whole: Ladder, home: Path) -> None:
    out = home / "killed"
    command = [sys.executable, "-m", "regard", "ladder", *wanted(home).train, "--out", str(out), "--steps", "3"]
    command += [part for change in SMALL for part in ("--set", change)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while child.poll() is None and not (out / "2-lstm" / "run.toml").is_file():
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = (out / "1-rnn" / "log.jsonl").read_bytes()
    ladder = Ladder(replace(wanted(home), minutes=30.0), out)
    assert [done["rung"] for done in ladder.done] == ["rnn"]
    climb(ladder)
    assert (out / "1-rnn" / "log.jsonl").read_bytes() == before  # what was done is not done again
    assert plain(ladder.done) == plain(whole.done)


def test_a_rung_half_done_is_resumed(whole: Ladder, home: Path) -> None:
    stop, out = Event(), home / "half"

    def press(kind: str, **values: Any) -> None:
        if kind == "valid" and values["step"] == 2:
            stop.set()

    ladder = Ladder(wanted(home), out)
    assert climb(ladder, stop, [press]) == []
    assert [event["step"] for event in read_log(out / "1-rnn" / "log.jsonl") if event["kind"] == "valid"] == [1, 2]
    first = next(Ladder(wanted(home), out).climb([], lambda text: None, Event()))
    assert [event["step"] for event in read_log(out / "1-rnn" / "log.jsonl") if event["kind"] == "valid"] == [1, 2, 3]
    assert plain([first]) == plain(whole.done[:1])


def test_minutes_become_steps_by_a_measured_pace(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    ladder = Ladder(wanted(home, steps=None, minutes=0.5), home / "timed")
    config = ladder._config(ladder._base(told.append), 1)
    run = ladder.folder_of(1)
    assert 0 < climbing.pace(config, run, 0.1) < 10
    assert sorted(path.name for path in run.iterdir()) == ["data", "tokenizer"]  # made once, and kept for the run
    monkeypatch.setattr(climbing, "pace", lambda config, run, seconds: seconds / 10)
    timed = ladder._timed(config, run, told.append)
    assert (timed.train.steps, timed.train.warmup, timed.valid.every) == (100, 10, 10)
    assert told[-1] == "a step takes 0.300 s, so 0.5 minutes are 100 steps"


def test_a_pace_is_that_of_the_quicker_reports() -> None:
    watch = Watch(seconds=0.0)
    watch.seen = [(0.0, 1), (2.0, 2), (4.0, 6), (5.0, 8), (9.0, 9)]  # 2, 0.5, 0.5 and 4 seconds a step
    assert watch.pace() == 0.5
    assert not watch.stop.is_set()
    watch("step", step=10)
    assert watch.stop.is_set()


def test_pairs_are_parted_by_their_source_and_none_is_lost(home: Path, tmp_path: Path) -> None:
    found = part(tmp_path, wanted(home).train, ())
    rows = {name: [json.loads(line) for line in Path(found[name][0]).read_text().splitlines()]
            for name in ("train", "valid", "test")}  # fmt: skip
    assert sum(map(len, rows.values())) == 300
    sources = [{row["source"] for row in each} for each in rows.values()]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    (tmp_path / "few.tsv").write_text("ein\ta\n")
    with pytest.raises(UserError, match="1 pairs are too few"):
        part(tmp_path, [str(tmp_path / "few.tsv")], ())


def test_the_report_has_a_row_a_rung_and_everyday_things(whole: Ladder) -> None:
    text = markdown(whole)
    assert sum(line.startswith("| ") for line in text.splitlines()) == 2 + len(RUNGS)
    assert "kettles boiled" in text
    assert all(rung.title in drawing(whole).text for rung in RUNGS)
    write_report(whole)
    assert (whole.folder / "ladder.md").read_text() == text
    assert describe(whole.done[-1]).startswith("+ beam of 4: BLEU ")


def test_other_wishes_and_impossible_ones_are_refused(whole: Ladder, home: Path) -> None:
    with pytest.raises(UserError, match="holds another ladder: seed was 1 and is 2"):
        Ladder(wanted(home, seed=2), whole.folder)
    with pytest.raises(UserError, match=r"unknown key 'model\.widht'"):
        check(replace(wanted(home), changes=("model.widht=3",)))
    with pytest.raises(UserError, match="--set task=classify"):
        check(replace(wanted(home), changes=("task=classify",)))
    with pytest.raises(UserError, match="there is no file"):
        check(Wanted(train=(str(home / "nowhere.tsv"),)))


def test_files_that_changed_meanwhile_are_refused(home: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path)
    asked, stop = wanted(tmp_path), Event()
    stop.set()
    climb(Ladder(asked, tmp_path / "ladder"), stop)
    Ladder(asked, tmp_path / "ladder")
    with (tmp_path / "train.de").open("a") as file:
        file.write("ein Wort mehr\n")
    with pytest.raises(UserError, match=r"train\.de has changed since"):
        Ladder(asked, tmp_path / "ladder")


def test_a_start_that_fails_does_not_block_the_folder(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        climb(Ladder(wanted(home, columns=("nowhere", "else")), tmp_path / "ladder"))
    assert not (tmp_path / "ladder" / "ladder.json").exists()


def test_minutes_are_no_other_wish_where_steps_are_given(whole: Ladder, home: Path) -> None:
    assert Ladder(wanted(home, minutes=99), whole.folder).done
    told = "another ladder: minutes was not given and is 99, steps was 3 and is not given"
    with pytest.raises(UserError, match=told):
        Ladder(wanted(home, minutes=99, steps=None), whole.folder)
