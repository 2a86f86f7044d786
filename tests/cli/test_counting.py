"""A long job says how far it is, to the right place and not too often."""

import io
import sys

import pytest

from regard.cli import counting
from regard.cli.counting import counted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(monkeypatch: pytest.MonkeyPatch, *, out: io.StringIO, err: io.StringIO, seconds: float) -> str:
    """A hundred items, one every `seconds`."""
    now = 0.0
    monkeypatch.setattr(counting.time, "monotonic", lambda: now)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    for _ in counted(range(100), "lines"):
        now += seconds
    return err.getvalue()


def test_a_short_job_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, out=io.StringIO(), err=Terminal(), seconds=0.01) == ""
    assert run(monkeypatch, out=io.StringIO(), err=io.StringIO(), seconds=0.1) == ""


def test_a_terminal_gets_a_live_line_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, out=io.StringIO(), err=Terminal(), seconds=0.1)
    assert said.count("\n") == 1
    assert "20 lines, 10.0 a second" in said
    assert said.rstrip().endswith("100 lines, 10.0 a second")


def test_a_file_gets_a_plain_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, out=io.StringIO(), err=io.StringIO(), seconds=1.0)
    assert said.splitlines() == [f"{n} lines, 1.0 a second" for n in (30, 60, 90)]


def test_results_on_the_same_terminal_are_progress_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, out=Terminal(), err=Terminal(), seconds=1.0) == ""
