"""Where a run's sentences are, and what to type where they are not."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.data.catalogue import read_catalogue
from regard.data.corpus import Part, Source, read_rows
from regard.data.pictures import exists, is_pictures
from regard.data.stretch import Stretch
from regard.errors import UserError
from regard.files import expanded, what_is_at
from regard.training.config import RunConfig, TaskName

HELD_BY: dict[TaskName, int] = {"answer": 1}
"The field by which rows are held out, where it is not the first: all questions about one text stay together."

PICTURED = ("recognise", "caption")
"Tasks whose rows begin with a picture."


@dataclass(frozen=True)
class Sources:
    """The files of each set: train, valid and test."""

    config: RunConfig

    def names(self, which: str) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(self.config.data, which)
        return names

    @property
    def pictured(self) -> bool:
        return self.config.task in PICTURED

    def paths(self, which: str) -> list[Path]:
        paths, pictured = [expanded(name) for name in self.names(which)], self.pictured
        missing = [path for path in paths if not (exists(path) if pictured else path.is_file())]
        other = [path for path in missing if path.exists()]
        if other:
            hint = f"give the files with the sentences, not what holds or makes them; the key is data.{which}"
            raise UserError(f"data.{which}: {other[0]} is {what_is_at(other[0])}, not a file", hint)
        if missing:
            raise UserError(f"there is no file {', '.join(map(str, missing))}", _mend(which, paths, missing[0]))
        if wrong := [path for path in paths if is_pictures(path) != pictured]:
            what = "no pictures" if pictured else "pictures"
            hint = "expected idx files, tars or folders of pictures" if pictured else "for pictures: --task recognise"
            raise UserError(f"data.{which}: {wrong[0]} holds {what}", hint)
        return paths

    def check(self, sets: Sequence[str]) -> None:
        for which in sets:
            self.paths(which)

    def source(self, which: str) -> Source | None:
        """Where the rows of a set are; None where there is none. Training rows may be kept for validation."""
        data = self.config.data
        held = data.hold_out if not data.valid else 0.0
        if data.pack == "files":
            paths = tuple(self.paths("train" if held and which == "valid" else which))
            low, high = (1 - held, 1.0) if which == "valid" and held else (0.0, 1 - held if which == "train" else 1.0)
            return Stretch(paths, low, high) if paths else None
        by = HELD_BY.get(self.config.task, 0)
        if which == "valid" and held:
            return Part(tuple(self.paths("train")), 0.0, held, by)
        if which == "train" and held:
            return Part(tuple(self.paths("train")), held, 1.0, by)
        return self.paths(which) if self.names(which) else None

    def rows(self, which: str) -> Iterator[tuple[str, ...]]:
        source = self.source(which)
        return iter(()) if source is None else read_rows(source, columns=self.config.data.columns or None)

    def known(self) -> Iterator[tuple[str, ...]]:
        """Rows whose labels a model has to know: those to train on, with those that are held out of them."""
        return read_rows(self.paths("train"), columns=self.config.data.columns or None)

    def pairs(self, which: str, limit: int | None) -> list[tuple[str, ...]]:
        """The first pairs with something on both sides."""
        return list(islice((row for row in self.rows(which) if row[0].strip() and row[1].strip()), limit))


def _mend(which: str, paths: Sequence[Path], missing: Path) -> str:
    def named(names: list[str]) -> str:
        return f"--set {shlex.quote(f'data.{which}={json.dumps(names, ensure_ascii=False)}')}"

    packed = missing.with_name(f"{missing.name}.gz")
    if packed.is_file():
        return f"{packed.name} is there: {named([str(packed if path == missing else path) for path in paths])}"
    own = named([f"my.{path.name}" for path in paths])
    for name, entry in read_catalogue().data.items():
        here = Path("data") / entry.folder
        if missing.parent.parts[-2:] == here.parts:
            to = "" if missing.parent.absolute() == here.absolute() else f" --to {shlex.quote(str(missing.parent))}"
            return f"fetch it with `regard get {name}{to}`,\n  or name your own: {own}"
    return f"check [data], or name other files: {own}"
