"""Texts come from the arguments or from stdin, in order and unharmed."""

import io
import sys
from pathlib import Path

import pytest

from regard.cli.records import decode_lines, read, records
from regard.errors import UserError


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))


@pytest.mark.usefixtures("stdin")
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), ["one", "two"]),
        (("-",), ["one", "two"]),
        (("a", "b"), ["a", "b"]),
        (("a", "-", "b"), ["a", "one", "two", "b"]),
    ],
)
def test_no_argument_or_a_dash_reads_stdin(texts: tuple[str, ...], expected: list[str]) -> None:
    assert list(records(texts)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"no newline", ["no newline"]),
        (b"dos\r\nunix\n", ["dos", "unix"]),
        (b"\n\nx\n", ["", "", "x"]),
        (b"\xef\xbb\xbfmarked\n", ["marked"]),
        ("one\u2028record\x0bonly\x85\n".encode(), ["one\u2028record\x0bonly\x85"]),
    ],
)
def test_only_a_newline_ends_a_record(data: bytes, expected: list[str]) -> None:
    assert list(decode_lines(io.BytesIO(data), "stdin")) == expected


def test_bytes_that_are_not_utf8_are_named_by_line_and_place() -> None:
    with pytest.raises(UserError, match="stdin, line 2: not UTF-8 at byte 4") as caught:
        list(decode_lines(io.BytesIO(b"fine\ncaf\xe9\n"), "stdin"))
    assert "iconv" in caught.value.hint


def test_the_name_of_a_file_is_a_text_but_a_word_is_said_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(read(["a.txt"], None)) == ["a.txt"]
    assert list(read(["x" * 5000], None)) == ["x" * 5000]  # too long for a name
    assert capsys.readouterr().err == ""
    Path("a.txt").write_text("mesa")
    assert list(read(["a.txt"], None)) == ["a.txt"]
    assert "--file a.txt reads it" in capsys.readouterr().err


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    with (
        open("/dev/zero", "rb") as file,
        pytest.raises(UserError, match=r"zeros, line 1 has more than 16,777,216 bytes"),
    ):
        next(decode_lines(file, "zeros"))


@pytest.mark.parametrize(
    ("name", "said"), [("", "is a folder"), ("x" * 5000, "cannot read x{200} ... "), ("no", "no file")]
)
def test_a_path_that_is_no_file_is_named(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        read((), Path(name))


def test_a_closed_stdin_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="stdin is closed"):
        list(records(()))
