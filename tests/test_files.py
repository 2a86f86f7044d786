"""Files are written whole or not at all; what is no file is written to, never replaced."""

import os
import threading
from pathlib import Path

from faults.refusal import refused
from regard.files import write_bytes


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert pipe.is_fifo()


def test_a_directory_stays_one(tmp_path: Path) -> None:
    with refused("cannot write", tmp_path, hint=False):
        write_bytes(tmp_path, b"x")
    assert tmp_path.is_dir()
