"""The application: models in, an ASGI application out."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.routing import Route as Path_
from starlette.routing import Router

from regard.studio import attending, general, generating, libre, openai, races, runs, seeing, solving, translating
from regard.studio.guard import Guard, Rules
from regard.studio.models import Entry, Table
from regard.studio.openapi import document
from regard.studio.pages import Pages, policy, read_files
from regard.studio.problem import encoded
from regard.studio.routes import Endpoint, House, Route

MODULES = (general, translating, attending, generating, solving, seeing, runs, races, openai, libre)
ROUTES: list[Route] = [route for module in MODULES for route in module.ROUTES]


def build(entries: Sequence[Entry], folders: Sequence[Path] = (), rules: Rules | None = None) -> "Studio":
    """`folders` hold training runs, or are ones; races are files in them, or of the list."""
    house = House(Table(entries), runs=runs.Runs(folders), races=races.Races(folders))
    return Studio(house, rules or Rules())


class Studio(Guard):
    def __init__(self, house: House, rules: Rules) -> None:
        self.house = house
        files = read_files()
        described = encoded(document(ROUTES))
        pages = Pages(files)

        def openapi(_request: Any) -> Response:
            return Response(described, media_type="application/json")

        paths = [Path_(route.path, Endpoint(route, house), methods=[route.method]) for route in ROUTES]
        paths += [
            Path_("/openapi.json", openapi),
            Path_("/", pages, methods=["GET"]),
            Path_("/static/{name:path}", pages, methods=["GET"]),
        ]
        router = Router(paths, redirect_slashes=False, lifespan=self._life)
        super().__init__(router, rules._replace(policy=policy(files["index.html"].body)), house.metrics)

    @asynccontextmanager
    async def _life(self, _app: Any) -> AsyncIterator[None]:
        self.house.table.start()
        yield
        self.house.table.is_draining = True
        await asyncio.to_thread(self.house.table.close)
