"""Text out of files, compressed or not: line by line or as one document, and never more than was allowed for."""

import gzip
import itertools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError
from regard.files import MIB, what_is_at

MAX_LINE = 1 << 24
"Longest line in bytes: more is no sentence, but a file of another kind or a compressed trap."

BROKEN = "the file may be cut short or damaged; get it again"


def check_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path} is not a file: {what_is_at(path)} is there", "check the path")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is not a whole gzip file: {error}", BROKEN) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", "check the file and its rights") from error


def full_lines(path: Path) -> Iterator[str]:
    """Each line with its "\\n"."""
    with opened(path) as file:
        for number in itertools.count(1):
            line = file.readline(MAX_LINE + 1)
            if not line:
                return
            if len(line) > MAX_LINE:
                raise UserError(f"{path}, line {number} has more than {MAX_LINE:,} bytes", "is it a file of text?")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                what = f"byte {error.start + 1} ({line[error.start]:#04x}) is not UTF-8"
                raise UserError(f"{path}, line {number}: {what}", "save the file as UTF-8") from error


def bare_lines(path: Path) -> Iterator[str]:
    for line in full_lines(path):
        yield line.removesuffix("\n").removesuffix("\r")


def document(path: Path, limit: int) -> str:
    """The whole of it, which must be a regular file and have at most `limit` bytes when unpacked."""
    check_file(path)
    data = bytearray()
    with opened(path) as file:
        while piece := file.read(MIB):  # not `limit` at once, which would take that much for any file
            data += piece
            if len(data) > limit:
                raise UserError(f"{path} has more than {limit:,} bytes", "split it into several files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"byte {error.start + 1:,} ({data[error.start]:#04x}) is not UTF-8"
        raise UserError(f"{path}: {what}", "save the file as UTF-8") from error
