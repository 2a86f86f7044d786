"""Whoever waits for longer than a moment is told for what, and nobody else."""

import io
import sys
import time
from pathlib import Path

import pytest

from regard.cli import waiting
from regard.cli.main import run
from regard.cli.terminal import tell
from regard.weights import store
from tasks.translators import save


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SILENCE", 0.1)


def test_what_takes_long_is_told_once_and_the_rest_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.waiting("a short thing"):
        pass
    with waiting.waiting("a long thing"):
        time.sleep(0.5)
    with waiting.waiting("a thing of another rank", is_heard=False):
        time.sleep(0.3)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "a long thing ... 0 s\n")


def test_each_of_several_things_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.waiting("one") as sign:
        time.sleep(0.4)
        sign.now("two")
        time.sleep(1.5)
        sign.end()
        time.sleep(0.3)
    assert [line[:3] for line in capsys.readouterr().err.splitlines()] == ["one", "two"]


def test_who_hears_something_else_is_not_waiting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SILENCE", 0.5)
    with waiting.waiting("working"):
        for _ in range(20):
            tell("news")
            time.sleep(0.05)
    assert set(capsys.readouterr().err.splitlines()) == {"news"}


def test_on_a_terminal_the_sign_is_wiped_away_for_news_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with waiting.waiting("working"):
        time.sleep(0.5)
        tell("news")
    with waiting.waiting("working"):
        time.sleep(0.5)
    first, rest = terminal.getvalue().split("news\n")
    for shown in (first, rest):
        assert shown.startswith("\rworking ... 0 s")
        assert shown.endswith(" \r")


def test_a_verb_says_which_model_it_opens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, pairs = str(save(tmp_path / "model")), tmp_path / "pairs.tsv"
    pairs.write_text("mesa\ttable\n")
    honest = store.load_model

    def slow(*args: object, **options: object) -> object:
        time.sleep(0.5)
        return honest(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "load_model", slow)
    monkeypatch.setattr("regard.tasks.load.load_model", slow)
    for verb in (
        ["translate", "--model", model, "--max-new", "2", "mesa"],
        ["evaluate", "--model", model, "--data", str(pairs), "--beam", "1", "--bootstrap", "0"],
        ["summary", model],
        ["convert", model, str(tmp_path / "new")],
    ):
        assert run(verb) == 0
        assert f"{'converting' if verb[0] == 'convert' else 'opening'} {model} ... " in capsys.readouterr().err
