"""`regard studio`: which models and runs it offers, whom it lets in, and what it says before torch is imported."""

import socket
import sys
from pathlib import Path

import pytest

from regard.cli import studio
from regard.cli.main import run
from regard.cli.studio import address, secret_of, sorted_out
from regard.errors import UserError
from tasks import translators


def test_names_are_made_of_what_was_given_and_no_two_are_the_same(tmp_path: Path) -> None:
    first, second = translators.save(tmp_path / "a" / "model"), translators.save(tmp_path / "b" / "model")
    found = sorted_out((str(first), str(second)))
    assert list(found.models) == ["model", "model-2"]
    assert found.runs == []


def test_a_run_brings_its_curves_and_its_best_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-run"
    translators.save(folder / "best")
    (folder / "log.jsonl").write_text("{}\n")
    for given in (folder, tmp_path):
        assert sorted_out((str(given),)).runs == [given]
    assert sorted_out((str(folder),)).models == {"my-run": (folder / "best", "trained in my-run")}


def test_a_race_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "first.json"
    file.write_text('{"race": 1, "sheets": {}}')
    for given in (file, tmp_path):
        assert sorted_out((str(given),)) == ({}, [given])
    with pytest.raises(UserError):
        sorted_out((str(tmp_path / "second.json"),))


def test_without_arguments_it_is_what_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio, "is_here", lambda name: True)
    monkeypatch.setattr(studio, "is_installed", lambda name: True)
    assert studio.usual() == ["pt-en", "shakespeare", "shapes", "names", "minilm", "smollm2"]
    monkeypatch.setattr(studio, "is_installed", lambda name: False)
    assert studio.usual() == ["pt-en", "shakespeare", "shapes"]  # names is an adapter of minilm, and nothing without it
    monkeypatch.setattr(studio, "is_here", lambda name: False)
    monkeypatch.setattr(studio, "INSTALLED", {})
    with pytest.raises(UserError, match="no model"):
        studio.usual()


def test_beyond_this_computer_there_is_always_a_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REGARD_TOKEN", raising=False)
    assert secret_of(None, "127.0.0.1") is None
    made = secret_of(None, "0.0.0.0")
    assert made is not None
    assert len(made) >= 24
    assert "other computers" in capsys.readouterr().err
    assert address("0.0.0.0", 7860, made) == f"http://127.0.0.1:7860/?token={made}"
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    assert secret_of(file, "127.0.0.1") == "0123456789abcdef"
    for bad in ("short", "0123456789abcde;", "0123456789abcdeé"):
        monkeypatch.setenv("REGARD_TOKEN", bad)
        with pytest.raises(UserError):
            secret_of(None, "0.0.0.0")


def test_a_taken_port_is_told_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = translators.save(tmp_path / "model")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["studio", str(folder), "--port", str(port), "--no-open"]) == 1
    told = capsys.readouterr().err
    assert f"port {port}" in told
    assert "--port" in told


def test_a_model_that_is_not_there_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["studio", "no-such-model", "--no-open"]) == 3
    assert "no model at 'no-such-model'" in capsys.readouterr().err
    assert sys.modules  # and nothing was served
