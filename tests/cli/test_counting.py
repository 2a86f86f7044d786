"""A long job says how far it is, to the right place and not too often."""

import io
import sys

import pytest

from regard.cli import counting
from regard.cli.counting import Count


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(
    monkeypatch: pytest.MonkeyPatch, *, out: io.StringIO, err: io.StringIO, seconds: float, total: int | None = None
) -> str:
    """A hundred items, one every `seconds`; every tenth gives a result."""
    now = 0.0
    monkeypatch.setattr(counting.time, "monotonic", lambda: now)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    count = Count("lines", total)
    for done in range(1, 101):
        now += seconds
        count.heard(done)
        if done % 10 == 0:
            count.make_room()
            err.write("<result>" if out is err else "")
    count.close()
    return err.getvalue()


def test_a_short_job_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, out=io.StringIO(), err=Terminal(), seconds=0.01) == ""
    assert run(monkeypatch, out=io.StringIO(), err=io.StringIO(), seconds=0.1) == ""


def test_a_terminal_gets_a_live_line_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, out=io.StringIO(), err=Terminal(), seconds=0.125)
    assert said.count("\n") == 1
    assert said.startswith("\r16 lines, 8.0 a second")
    assert said.rstrip().endswith("100 lines, 8.0 a second")


def test_what_is_left_is_told_where_the_total_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, out=io.StringIO(), err=Terminal(), seconds=0.5, total=100)
    assert said.startswith("\r4/100 lines, 2.0 a second, 0:48 left")
    assert said.rstrip().endswith("100 lines, 2.0 a second")


def test_a_file_gets_a_plain_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, out=io.StringIO(), err=io.StringIO(), seconds=1.0)
    assert said.splitlines() == [f"{n} lines, 1.0 a second" for n in (30, 60, 90)]


def test_a_result_on_the_same_terminal_finds_the_line_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    said = run(monkeypatch, out=terminal, err=terminal, seconds=1.0)
    assert said.count("<result>") == 10
    assert all(before.endswith(" \r") for before in said.split("<result>")[:-1])
