"""A run's folder: who works in it, what was decided, and what is kept.

run.toml  log.jsonl  tokenizer/  data/  checkpoints/  best/  model/  finished.json  lock

No torch here: what is wrong with a name or a key is said before the seconds that it takes.
"""

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.config import build, read_toml, set_values, to_dict, to_toml
from regard.errors import USAGE, UserError
from regard.files import read_json_object, write_bytes
from regard.machine import is_alive
from regard.training.config import RunConfig

RUN_FILE, LOG_FILE, END_FILE = "run.toml", "log.jsonl", "finished.json"
PLACES = ("tokenizer", "data", "checkpoints", "best", "model", "adapter", "tensorboard")
"Folders that a run makes in its own."
MARK = "# A run of regard: `regard train` wrote this file, `regard resume` reads it.\n"
"How a folder that is a run's is told from one that happens to hold a run.toml."


def read_run(path: Path, assignments: Sequence[str] = ()) -> RunConfig:
    """A run's TOML with `--set` laid over it; paths in it are relative to the current folder."""
    return run_of(read_toml(path), assignments)


def run_of(settings: dict[str, Any], assignments: Sequence[str]) -> RunConfig:
    given, named = set_values(settings, assignments), {each.partition("=")[0].strip() for each in assignments}
    if "train.steps" in named:  # who counts steps means steps
        epochs = given["train"].pop("epochs", None)
        if "train.epochs" in named and epochs:
            raise UserError("train.steps and train.epochs are both set", "set one of them", exit_code=USAGE)
    return build(RunConfig, with_usual(given), "")


def with_usual(given: dict[str, Any]) -> dict[str, Any]:
    """What is said, and for what is not, what is usual for the task."""
    usual = read_toml(Path(__file__).parent / "usual.toml").get(str(given.get("task", "translate")), {})
    sections = {name: {**table, **given[name]} for name, table in usual.items() if isinstance(given.get(name), dict)}
    if "steps" in sections.get("train", {}) and "epochs" not in given["train"]:
        sections["train"].pop("epochs", None)
    return {**usual, **given, **sections}


def write_run(config: RunConfig, folder: Path) -> None:
    write_bytes(folder / RUN_FILE, (MARK + to_toml(to_dict(config))).encode("utf-8"))


def is_run(file: Path) -> bool:
    """Whether this run.toml was written by `regard train`, and is not a recipe that lies here."""
    return file.is_file() and file.read_bytes().startswith(MARK.encode())


def has_checkpoint(folder: Path) -> bool:
    return (folder / "checkpoints" / "latest").is_file()


def refuse_taken(folder: Path) -> None:
    """A new run goes where there is none yet, and nothing that it would write over."""
    if not is_run(folder / RUN_FILE):
        theirs = [name for name in (RUN_FILE, *PLACES) if (folder / name).exists()]
        if theirs:
            hint = "choose another folder with --out"
            raise UserError(f"{folder} holds {theirs[0]}, which no run of regard wrote", hint, exit_code=USAGE)
    elif (folder / "checkpoints").exists():
        hint = f"go on with `regard resume {folder}`, or choose another folder with --out"
        raise UserError(f"{folder} holds a run already", hint, exit_code=USAGE)


def clear(folder: Path) -> None:
    """Make room for a new run where an earlier start was killed; a run with checkpoints is never touched."""
    refuse_taken(folder)
    if is_run(folder / RUN_FILE):
        for leftover in ("tokenizer", "data", "tensorboard"):
            shutil.rmtree(folder / leftover, ignore_errors=True)


class Start:
    """What a start makes goes again, unless it is kept or has come to a checkpoint; what was there before stays."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.is_over = folder, False

    def keep(self) -> None:
        self.is_over = True

    @property
    def is_kept(self) -> bool:
        """However a run ends, by a lost rank, a full disk or a second Ctrl-C, `regard resume` finds its checkpoint."""
        return self.is_over or has_checkpoint(self.folder)

    @contextmanager
    def folders(self) -> Iterator[None]:
        """Around the lock, which stands in the folder."""
        made = [place for place in (self.folder, *self.folder.parents) if not place.exists()]
        try:
            yield
        finally:
            if not self.is_kept:
                with contextlib.suppress(OSError):  # not made after all, or not empty
                    for place in made:
                        place.rmdir()

    @contextmanager
    def files(self) -> Iterator[None]:
        """Inside the lock: nobody else writes here."""
        before = {path.name for path in self.folder.iterdir()}
        try:
            yield
        finally:
            for name in set() if self.is_kept else {RUN_FILE, LOG_FILE, *PLACES} - before:
                if (self.folder / name).is_dir():
                    shutil.rmtree(self.folder / name, ignore_errors=True)
                else:
                    (self.folder / name).unlink(missing_ok=True)


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
