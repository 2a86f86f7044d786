"""`regard ladder` as it is used: what is refused, and a stop that says how to go on."""

import json
from pathlib import Path

import pytest

from cli.test_train import ctrl_c_in
from regard.cli.main import run
from regard.training import loop

Captured = pytest.CaptureFixture[str]
PAIRS = ["train.de", "train.en"]
SMALL = ["--steps", "2", "--set", "model.d_model=16", "--set", "model.n_layers=1", "--set", "data.max_len=30"]


def test_ctrl_c_saves_and_the_same_command_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    command = ["ladder", *PAIRS, "--out", "steps", *SMALL]
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, loop, "step", call=3)  # the first of the second rung
        assert run(command) == 130
    out, err = capsys.readouterr()
    assert out.count("\n| vanilla RNN |") == 1
    assert "| LSTM |" not in out
    assert "stopped; go on with the same command" in err
    assert [done["rung"] for done in json.loads((home / "steps" / "ladder.json").read_text())["rungs"]] == ["rnn"]
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, loop, "step", call=2)  # the first of the third
        assert run([*command, "--json"]) == 130
    out, err = capsys.readouterr()
    assert [done["rung"] for done in json.loads(out)["rungs"]] == ["rnn", "lstm"]
    assert "rung 1 of 8" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (PAIRS, 2, "--out"),
        (["--out", "new"], 3, "regard get multi30k"),
        (["--out", "new", "--column", "de"], 2, "no PAIRS"),
        ([*PAIRS, "--out", "new", "--valid", "valid.de"], 2, "give both"),
        (["train.de", "nowhere.en", "--out", "new"], 3, "there is no file"),
        ([*PAIRS, "--out", "train.de"], 2, "is a file"),
        ([*PAIRS, "--out", "new", "--set", "train.lrr=1"], 3, "did you mean 'lr'?"),
        ([*PAIRS, "--out", "new", "--minutes", "-1"], 2, "--minutes"),
    ],
)
def test_what_cannot_be_climbed_is_refused_and_leaves_nothing(
    home: Path, arguments: list[str], code: int, told: str, capsys: Captured
) -> None:
    assert run(["ladder", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert not (home / "new").exists()
