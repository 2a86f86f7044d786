"""Reading small files under a limit, JSON strictly; writing them all at once or not at all."""

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import UserError

MIB = 1 << 20
MAX_SETTINGS = 16 * MIB
"Largest accepted settings file (special tokens, added tokens, configuration)."
MAX_VOCABULARY = 256 * MIB
"Largest accepted vocabulary; the biggest in use, of 260,000 tokens, take about 35 MB."


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole file, which must be a regular one of at most `limit` bytes."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device has no end
            raise UserError(f"{path} is not a file", "expected a file that can be read to its end")
        with path.open("rb") as file:
            data = file.read(limit + 1)  # never trust a size asked for before the reading
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}", "expected a readable file") from error
    if len(data) > limit:
        raise UserError(
            f"{path} has more than {limit:,} bytes", "no file of this kind is so large; is it the right one?"
        )
    return data


def what_is_at(path: Path) -> str:
    """What stands there instead of a file that can be read to its end, or nothing."""
    if path.is_dir():
        return "a folder"
    kinds = {"a device": (path.is_char_device, path.is_block_device), "a pipe": (path.is_fifo, path.is_socket)}
    return next((name for name, tests in kinds.items() if any(test() for test in tests)), "nothing")


def read_text(path: Path, limit: int) -> str:
    """UTF-8 text, with or without the byte order mark that Windows editors put first."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start}", "expected a readable file in UTF-8") from error


def read_json(path: Path, limit: int = MAX_SETTINGS, *, finite: bool = True) -> Any:
    """Parsed JSON; duplicate keys, NaN and endless nesting are refused rather than guessed at."""
    return parse_json(read_text(path, limit), str(path), finite=finite)


def read_json_object(path: Path, limit: int = MAX_SETTINGS, *, finite: bool = True) -> dict[str, Any]:
    value = read_json(path, limit, finite=finite)
    if not isinstance(value, dict):
        raise UserError(f"{path} holds something of type {type(value).__name__}", "expected a JSON object {...}")
    return value


def parse_json(text: str, name: str, *, finite: bool = True) -> Any:
    """`name` stands for the text in error messages. Without `finite`, NaN passes to whoever can name its key."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=refuse if finite else None)
    except RecursionError:
        raise UserError(f"{name} is nested too deeply to be real", "expected a readable JSON file") from None
    except ValueError as error:
        hint = "keep one of them" if "twice" in str(error) else "expected a readable JSON file; it may be cut short"
        raise UserError(f"{name} is not valid JSON: {error}", hint) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice")
    return found


def expanded(name: str | Path) -> Path:
    """With ~ and ~user filled in."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # no such user, or no home
        raise UserError(f"{name} cannot be found: {error}", "write the path without ~") from error


def write_json(path: Path, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))  # half a surrogate pair, as JSON spells it


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write. Readers see the old one or the whole new one, also after a power cut or an error in between.

    A pipe or a device is written to.
    """
    # Not tempfile: its files are readable by the owner alone, and the rename would keep that.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        if path.parent == Path("/dev") or (path.exists() and not path.is_file()):
            with path.open("wb") as file:
                yield file
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir():
        with contextlib.suppress(OSError):  # Windows opens no folder, and some file systems cannot do this
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return
    with path.open("rb+") as file:
        os.fsync(file.fileno())
