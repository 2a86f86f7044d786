"""A run's folder: who works in it, what was decided, and what is kept.

run.toml  log.jsonl  tokenizer/  data/  checkpoints/  best/  model/  lock
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import USAGE, UserError
from regard.files import read_json_object
from regard.machine import is_alive


@contextmanager
def locked(folder: Path, job: str = "") -> Iterator[None]:
    """Only one process trains in a folder; a lock whose owner is gone is taken over.

    When torchrun starts its ranks again, it has ended the old ones: their lock is this `job`'s own.
    """
    path = folder / "lock"
    _check_writable(folder)
    me = {"pid": os.getpid(), "host": socket.gethostname(), "job": job}
    while True:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(json.dumps(me))
            break
        except FileExistsError:
            _refuse_living(path, job)
            path.unlink(missing_ok=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_text("x")
        probe.unlink()
    except OSError as error:
        raise UserError(f"{folder} cannot be written to: {error}", "choose another folder with --out") from error


def _refuse_living(path: Path, job: str) -> None:
    try:
        owner = read_json_object(path)
    except UserError:
        return  # half-written by a process that was killed
    if job and owner.get("job") == job:
        return
    elsewhere, pid = owner.get("host") != socket.gethostname(), owner.get("pid")
    if elsewhere or (isinstance(pid, int) and is_alive(pid)):
        raise UserError(
            f"{path.parent} is in use by process {owner.get('pid')} on {owner.get('host')}",
            f"wait for it, choose another folder, or delete {path} if that process is gone",
            exit_code=USAGE,
        )
