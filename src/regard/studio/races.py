"""Races that were run: files of `regard race --json`, among what the server was started with."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import read_json_object
from regard.runlog import is_race
from regard.studio.problem import Problem
from regard.studio.routes import Asked, House, Route

MAX_RACE, MAX_RACES = 4 << 20, 200


class Races:
    """Those in these folders, and these files themselves: an id is looked up, never opened."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = [place.resolve() for place in places]

    def find(self) -> dict[str, Path]:
        files = [
            file for place in self.places for file in (sorted(place.glob("*.json")) if place.is_dir() else [place])
        ]
        races = [file for file in files[: 10 * MAX_RACES] if not file.is_symlink() and is_race(file)][:MAX_RACES]
        return {hashlib.sha256(bytes(file)).hexdigest()[:12]: file for file in races}


def listing(house: House, asked: Asked, _path: dict[str, str]) -> dict[str, Any]:
    rows = [{"id": id, "name": file.stem, "changed": file.stat().st_mtime} for id, file in house.races.find().items()]
    return {"races": sorted(rows, key=lambda row: -row["changed"])}


def race(house: House, asked: Asked, path: dict[str, str]) -> dict[str, Any]:
    file = house.races.find().get(path["id"])
    if file is None:
        raise Problem(404, "there is no such race", hint="GET /api/races lists them", code="race_not_found")
    found = read_json_object(file, MAX_RACE)
    if not isinstance(found.get("sheets"), dict):
        raise UserError(f"{file.name} has no tables", "run it again: regard race --json > FILE")
    return {"id": path["id"], "name": file.stem, **found}


ROUTES = [
    Route("/api/races", {}, "The races that were run", direct=listing, reads_files=True, method="GET"),
    Route("/api/races/{id}", {}, "All tables of a race", direct=race, reads_files=True, method="GET"),
]
