"""What is told on stderr steers no terminal, and stops no work where it cannot be told."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.progress import Line, TrainingLine
from regard.cli.terminal import tell, visible

BAD = [sys.executable, "-B", "-m", "regard", "summary", "nowhere/at/all"]
"A command that has something to say, and leaves with 3."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 😀\nsecond", "plain é 😀\nsecond"),
        ("\x1b]0;pwned\x07", "\\x1b]0;pwned\\x07"),
        ("a\rb\tc\x7f", "a\\rb\\tc\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
    ],
    ids=ascii,
)
def test_control_characters_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_neither_a_message_nor_a_line_of_progress_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    tell("\x1b[2J")
    Line().say("\x1b[2J")
    Line().show("\x1b[2J")
    assert capsys.readouterr().err == "\\x1b[2J\n" * 3


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_wide_line_goes_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    tell("error: a message of many words, more than fit\n  a hint of many words, more than fit\nshort")
    rows = terminal.getvalue().splitlines()
    assert max(map(len, rows)) <= 30
    assert [row[:3] for row in rows] == ["err", "  w", "  a", "  t", "sho"]


def test_elsewhere_a_line_stays_whole(capsys: pytest.CaptureFixture[str]) -> None:
    tell("word " * 100)
    assert capsys.readouterr().err.count("\n") == 1


class Full:
    """A disk without room."""

    tried = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.tried += 1
        raise OSError(28, "No space left on device")

    def fileno(self) -> int:
        raise OSError("not a real file")


@pytest.mark.parametrize("stream", [None, Full()], ids=["closed", "full"])
def test_progress_that_nobody_can_hear_stops_nothing(stream: Full | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    line = TrainingLine()
    line.show("one")
    line("stage", text="two")
    tell("three")
    assert stream is None or stream.tried >= 3


def test_a_message_into_a_closed_pipe_changes_no_exit_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(BAD, stdout=subprocess.PIPE, stderr=writer, timeout=120)
    os.close(writer)
    assert (done.returncode, done.stdout) == (3, b"")


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("shell", ['exec "$@" 2>&-', 'ulimit -f 0; exec "$@" 2>"$FILE"'], ids=["closed", "full"])
def test_a_message_that_cannot_be_written_changes_no_exit_code(shell: str, tmp_path: Path) -> None:
    environment = {**os.environ, "FILE": str(tmp_path / "err")}
    done = subprocess.run(["sh", "-c", shell, "sh", *BAD], stdout=subprocess.PIPE, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (3, b"")
