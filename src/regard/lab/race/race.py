"""`regard race`: the questions, one after the other, within the time; what is answered stays, whatever comes then."""

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.config import require
from regard.errors import UserError
from regard.files import read_json_object, write_bytes
from regard.inspection.figures.page import figure, html_table, page
from regard.lab.bench import at, computer
from regard.lab.race.copying import COPY
from regard.lab.race.cost import COST, SHORTEST
from regard.lab.race.gradient import GRADIENT
from regard.lab.race.limits import BRACKETS, PARITY, PATHS
from regard.lab.race.parts import AROUND, ENTROPY, HEADS
from regard.lab.race.racers import Size
from regard.lab.race.rank import RANK
from regard.lab.race.serial import SERIAL
from regard.lab.race.setting import MAX_LENGTH, Question, Setting
from regard.lab.race.sheet import Row, Sheet
from regard.training.energy import Energy, Meter

QUESTIONS: dict[str, Sequence[Question]] = {
    "race": (COST, SERIAL, GRADIENT, COPY),
    "rank": (RANK,),
    "parts": (ENTROPY, HEADS, AROUND),
    "limits": (PATHS, PARITY, BRACKETS),
}


@dataclass
class Race:
    setting: Setting
    asked: Sequence[str]
    minutes: float
    sheets: list[Sheet] = field(default_factory=list)
    stopped: bool = False
    seconds: float = 0.0
    energy: Energy = field(default_factory=lambda: Meter().read())

    def text(self) -> str:
        return "\n\n".join(sheet.text() for sheet in self.sheets)

    def to_dict(self) -> dict[str, Any]:
        versions = {"regard": __version__, "torch": torch.__version__, "python": platform.python_version()}
        return {
            "race": 1, "asked": list(self.asked), "seed": self.setting.seed, "minutes": self.minutes,
            "longest": self.setting.longest, "size": vars(self.setting.size), "steps": self.setting.done,
            "stopped": self.stopped, "seconds": self.seconds, "energy": vars(self.energy),
            "computer": vars(computer()) | {"threads": 1}, "versions": versions,
            "date": date.today().isoformat(), "sheets": {sheet.name: sheet.to_dict() for sheet in self.sheets},
        }  # fmt: skip

    def json(self) -> str:
        return json.dumps(_finite(self.to_dict()), allow_nan=False)

    def html(self) -> str:
        parts = [part for sheet in self.sheets for part in _parts(sheet)]
        return page("regard race", parts, text=f"seed {self.setting.seed}, {self.energy}")

    def draw(self, folder: Path) -> list[Path]:
        for sheet in self.sheets:
            sheet.save(folder / f"{sheet.name}.svg")
        return [folder / f"{sheet.name}.svg" for sheet in self.sheets]

    def write_page(self, path: Path) -> None:
        write_bytes(path, self.html().encode("utf-8", "backslashreplace"))


def _parts(sheet: Sheet) -> list[str]:
    rows: list[Sequence[object]] = [sheet.header, *sheet.cells()]
    return [figure(sheet.svg()), html_table(rows, f"{sheet.title}. {' '.join(sheet.says)}")]


def _finite(value: Any) -> Any:
    """JSON has no word for what is not a number."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def run(race: Race) -> Race:
    """Ctrl-C ends it; every row that is measured by then counts."""
    require(SHORTEST <= race.setting.longest <= MAX_LENGTH, f"--length {race.setting.longest}",
            f"expected {SHORTEST} to {MAX_LENGTH} tokens")  # fmt: skip
    left = [question for name in race.asked for question in QUESTIONS[name]]
    began, meter = time.monotonic(), Meter()
    with at(1):  # threads that wait for each other would count as if they worked
        while left and not race.stopped:
            question, shares = left[0], sum(each.share for each in left)
            now = time.monotonic()
            rest = max(0.0, began + 60 * race.minutes - now)
            race.setting.until = now + rest * question.share / shares
            rows: list[Row] = []
            try:
                rows.extend(question.ask(race.setting))
            except KeyboardInterrupt:
                race.stopped = True
            race.sheets += question.answer(rows, race.setting) if rows else []
            left = left[1:]
    race.seconds, race.energy = time.monotonic() - began, meter.read()
    return race


def read_plan(path: Path) -> dict[str, Any]:
    """What an earlier race was run with, from its JSON."""
    found = read_json_object(path)
    steps = found.get("steps")
    numbers = (found.get("seed"), found.get("longest"), *(steps.values() if isinstance(steps, dict) else (None,)))
    names, size, minutes = found.get("asked"), found.get("size"), found.get("minutes")
    if found.get("race") != 1 or not all(isinstance(each, int) and each >= 0 for each in numbers):
        raise UserError(f"{path} is no race", "`regard race --json > FILE` writes one")
    if found.get("stopped"):
        raise UserError(f"{path} is of a race that was stopped", "how far the rest would have come is not known")
    if not isinstance(names, list) or not names or not set(names) <= set(QUESTIONS):
        raise UserError(f"{path} asks for {names!r}", f"expected some of {', '.join(QUESTIONS)}")
    width = size.get("width", 0) if isinstance(size, dict) else 0
    sized = width in range(8, 513, 8) and size == vars(Size(width=width))
    require(
        sized and isinstance(minutes, int | float), f"{path} has size {size!r} and minutes {minutes!r}", "make it again"
    )
    return found
