"""`regard verify` shows a table or one JSON object, and fails with 1."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.tiny import make
from regard.cli import main
from regard.errors import FAILURE
from regard.lab import verify as lab
from regard.lab.finding import DoesNotApply, Found
from regard.lab.subject import Subject
from regard.weights.store import save_model

NOT_APPLICABLE = "an encoder has no cache"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_model(make("bert"), tmp_path)
    return tmp_path


def found(difference: float, allowed: float = 0.0, note: str = "") -> Any:
    return lambda subject: Found(difference, allowed, note)


def none(subject: Subject) -> Found:
    raise DoesNotApply(NOT_APPLICABLE)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each."""
    made = {"good": found(1e-7, 1e-5), "none": none, "bad": found(0.5), "odd": found(float("nan"), note="not finite")}
    monkeypatch.setattr(lab, "CHECKS", made)


@pytest.mark.usefixtures("checks")
def test_the_table_has_a_line_for_each_row_and_a_failure_exits_with_one(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["verify", str(directory)]) == FAILURE
    good, not_applicable, bad, odd = capsys.readouterr().out.splitlines()
    assert good.split() == ["ok", "good", "largest", "difference", "1.0e-07,", "allowed", "1.0e-05"]
    assert not_applicable.split() == f"- none {NOT_APPLICABLE}".split()
    assert bad.split() == ["FAIL", "bad", "largest", "difference", "5.0e-01,", "allowed", "0.0e+00"]
    assert odd.split() == ["FAIL", "odd", "largest", "difference", "nan,", "allowed", "0.0e+00", "not", "finite"]


@pytest.mark.usefixtures("checks")
def test_json_says_the_same_in_one_strict_object(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["verify", str(directory), "--json"]) == FAILURE
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (shown["model"], shown["passed"], shown["parameters"]) == (str(directory), False, make("bert").n_parameters)
    assert [(row["name"], row["applies"], row["passed"], row["note"]) for row in shown["rows"]] == [
        ("good", True, True, ""),
        ("none", False, True, NOT_APPLICABLE),
        ("bad", True, False, ""),
        ("odd", True, False, "not finite"),
    ]


def test_a_directory_is_opened_by_transformers_itself_and_a_preset_as_a_copy(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "CHECKS", {name: lab.CHECKS[name] for name in ["ours = transformers"]})
    for model, what in ((str(directory), "the same directory"), ("bert-tiny", "a copy that regard saved")):
        assert main.run(["verify", model]) == 0
        assert capsys.readouterr().out.rstrip().endswith(what)


def test_what_is_neither_a_model_nor_a_preset_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["verify", "no-such-model"]) == 3
    assert "no model at" in capsys.readouterr().err


def test_a_preset_larger_than_the_memory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["verify", "gpt3"]) == 3
    assert "smaller" in capsys.readouterr().err
