"""`regard summary` shows what matters, fits the terminal, and helps with names."""

from pathlib import Path

import pytest

from models import tiny
from regard.cli.main import run
from regard.weights.store import save_model


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert run(["summary", *args]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("GPT2", "did you mean gpt2?"),
        ("vit", "did you mean vit-base, vit-tiny, vit-small, vit-large or vit-gpt2?"),
        ("bert", "did you mean bert-base, bert-large or bert-tiny?"),
        ("bert-bsae", "bert-base"),
        ("zzzz", "`regard list presets`"),
    ],
)
def test_a_name_that_is_no_preset_is_answered_with_the_nearest(
    name: str, offered: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["summary", name]) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: there is no preset and no file called '{name}'"
    assert offered in second


@pytest.mark.parametrize("name", ["./vit", "models/bert", "~nobody-by-this-name", "x" * 5000])
def test_a_path_that_leads_nowhere_is_called_that(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["summary", name]) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: there is no model at")
    assert len(err) < 300


def test_a_file_is_labelled_by_its_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(tiny.make("llama"), tmp_path)
    assert shown(capsys, str(tmp_path)).startswith(f"{tmp_path}: layout llama, ")


@pytest.mark.parametrize("columns", [80, 60, 120])
@pytest.mark.parametrize("name", ["vit-base", "llama3.1-8b", "bert-large"])
def test_lines_are_as_wide_as_the_terminal(
    name: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(capsys, name).splitlines()
    text = lines[lines.index("", 2) + 1 :]  # below the table of parts
    assert all(len(line) <= columns for line in text)
    assert max(map(len, text)) > columns - 20
    assert any("d_model " in line and "d_model  " not in line for line in text)
