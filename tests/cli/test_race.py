"""`regard race` as it is used: tables, files, Ctrl-C, and arguments that are refused before torch is imported."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from regard.cli.main import run
from regard.lab.race.practice import Pupil

QUICK = ["--steps", "2", "--width", "8", "--length", "128"]
Captured = pytest.CaptureFixture[str]


def test_tables_go_to_stdout_figures_to_files_and_the_rest_to_stderr(tmp_path: Path, capsys: Captured) -> None:
    page, folder = tmp_path / "race.html", tmp_path / "pictures"
    assert run(["race", "--rank", *QUICK, "--svg", str(folder), "--html", str(page)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("How far apart the tokens stay")
    assert (folder / "rank.svg").is_file()
    assert page.read_text().startswith("<!doctype html>")
    assert "CO2" in err
    assert "kettles boiled" in err


def test_again_repeats_what_the_json_says(tmp_path: Path, capsys: Captured) -> None:
    assert run(["race", "--rank", "--limits", *QUICK, "--seed", "3", "--json"]) == 0
    first = capsys.readouterr().out
    (tmp_path / "first.json").write_text(first)
    assert run(["race", "--again", str(tmp_path / "first.json"), "--json"]) == 0
    ours, theirs = json.loads(first), json.loads(capsys.readouterr().out)
    assert ours["steps"] == theirs["steps"] != {}
    for name, sheet in ours["sheets"].items():
        for one, other in zip(sheet["rows"], theirs["sheets"][name]["rows"], strict=True):
            assert {key for key in one if one[key] != other[key]} <= set(sheet["timed"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stopped": True}, "was stopped"),
        ({"steps": {"copy, rnn": 2}}, "has no steps of 'copy, lstm'"),
        ({"size": {"width": 8, "n_layers": 0}}, "has size"),
    ],
)
def test_a_race_that_cannot_be_repeated_is_refused(
    changes: dict[str, Any], told: str, tmp_path: Path, capsys: Captured
) -> None:
    size = {"width": 8, "n_layers": 2, "n_heads": 2, "vocab_size": 32, "window": 16}
    whole = {"race": 1, "asked": ["race"], "seed": 0, "minutes": 0.01, "longest": 128, "size": size, "steps": {}}
    (tmp_path / "first.json").write_text(json.dumps(whole | changes))
    assert run(["race", "--again", str(tmp_path / "first.json")]) == 3
    assert told in capsys.readouterr().err


def test_ctrl_c_prints_what_is_done_and_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def press(self: Pupil, seed: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Pupil, "learn", press)
    assert run(["race", "--limits", *QUICK]) == 130
    out, err = capsys.readouterr()
    assert "Length of the path" in out
    assert "stopped; what was measured by then is above" in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--minutes", "0"], 2, "--minutes"),
        (["--minutes", "nan"], 2, "is not a number"),
        (["--minutes", "inf"], 2, "--minutes"),
        (["--width", "12"], 2, "a multiple of 8"),
        (["--length", "64"], 2, "--length"),
        (["--again", "nowhere.json"], 3, "nowhere.json"),
        (["--again", __file__, "--width", "64", "--length", "256"], 2, "--width --length: --again repeats"),
        (["--html", "."], 3, "--html"),
        (["--lanes"], 2, "no such option"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], code: int, told: str, capsys: Captured) -> None:
    assert run(["race", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_a_signal_waits_for_the_end_of_a_turn(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    learn, ended = Pupil.learn, []

    def press(self: Pupil, seed: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM if not ended else 0)
        learn(self, seed)
        ended.append(self.name)

    monkeypatch.setattr(Pupil, "learn", press)
    assert run(["race", "--limits", *QUICK]) == 128 + signal.SIGTERM
    out, err = capsys.readouterr()
    assert len(set(ended)) == 1
    assert "Length of the path" in out
    assert "ending this turn" in err


def test_what_cannot_be_written_costs_no_result(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").touch()
    assert run(["race", "--rank", *QUICK, "--html", str(tmp_path / "file" / "x.html")]) == 3
    out, err = capsys.readouterr()
    assert out.startswith("How far apart the tokens stay")
    assert "cannot write" in err
    assert "written:" not in err
