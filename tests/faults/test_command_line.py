"""`regard convert` called wrongly answers with what to type, exit code 2 or 3, and never with a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.main import run
from weights.checkpoints import save_tiny


def shown(capsys: pytest.CaptureFixture[str], code: int, *args: object) -> str:
    assert run(["convert", *map(str, args)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert "bug in regard" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ([], ["missing argument", "SRC"]),
        (["a"], ["missing argument", "DST"]),
        (["a", "b", "c"], ["unexpected extra argument"]),
        (["a", "b", "--allow-pickel"], ["--allow-pickle"]),
        (["a", "b", "--dtype", "float8"], ["float32", "float16", "bfloat16"]),
        (["a", "b", "--dtype"], ["--dtype"]),
        (["a", "b", "--shard-size", "1e400"], ["500MB"]),
        (["-x", "b"], ["no such option"]),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_before_any_work(
    args: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    message = shown(capsys, 2, *args)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("src", ["nowhere", "x" * 4096, "a\nb", "hf:../../x", "hf:", "~nobody-by-this-name"])
def test_a_source_that_is_nowhere_is_refused_and_nothing_is_made(
    src: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(capsys, 3, src, "new")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_a_leading_dash_is_given_after_two_dashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_tiny(Path("-old model\n"))
    assert run(["convert", "--", "-old model\n", "-new"]) == 0
    assert (tmp_path / "-new" / "model.safetensors").exists()


def test_a_directory_without_permission_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "old")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.access(locked, os.W_OK):
        pytest.skip("whoever runs this may write everywhere")
    assert "cannot be written" in shown(capsys, 3, tmp_path / "old", locked / "new")


def test_the_message_fits_any_terminal(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1", "COLUMNS": "20", "LC_ALL": "C"}
    command = [sys.executable, "-m", "regard", "convert", str(tmp_path / "näher"), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment)
    assert done.returncode == 3
    assert b"there is no model at" in done.stderr
    assert b"Traceback" not in done.stderr
