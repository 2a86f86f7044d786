"""A route: what it takes, which model it needs, and what is done with it on that model's thread."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.studio import fields
from regard.studio.engine import LATER, Job
from regard.studio.fields import Fields, decoded, from_query, parsed
from regard.studio.guard import FORM
from regard.studio.metrics import Metrics
from regard.studio.models import Entry, Table
from regard.studio.problem import Problem, encoded
from regard.studio.wire import Bytes, Stream, sse, whole

Asked = dict[str, Any]
Work = Callable[[Entry, Asked, Job], Any]
"On the model's thread: what is told on the way goes to a stream; what is given back is the answer."

ASIDE = 1 << 15
"Bytes of a request from which it is read beside the loop: of a megabyte of JSON one hears nothing for half a second."
MODEL = fields.optional(fields.text(200, least=1))


@dataclass
class House:
    """What routes share."""

    table: Table
    metrics: Metrics = field(default_factory=Metrics)
    runs: Any = None
    races: Any = None


@dataclass(frozen=True)
class Route:
    path: str
    fields: Fields
    about: str
    work: Work | None = None
    verb: str | Callable[[Asked], str] | None = None
    "What the model must be able to do, for this request."
    suits: Callable[[Asked, dict[str, Any]], bool] | None = None
    "Among several that can, which: by the request and a model's outline."
    direct: Callable[[House, Asked, dict[str, str]], Any] | None = None
    "Instead of work: quick, and without a model."
    reads_files: bool = False
    "A disk may be slow: then it is done beside the loop."
    method: str = "POST"
    render: Callable[[str, Any], bytes] = sse
    last: bytes = b""
    "What closes a stream."
    binary: bool = False
    seconds: float = 300.0


class Endpoint:
    """A route as an ASGI application."""

    def __init__(self, route: Route, house: House) -> None:
        self.route, self.house = route, house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.house.table.is_draining and self.route.work is not None:
            raise Problem(503, "the server is leaving", hint="start it again", code="draining")
        request = Request(scope, receive)
        response = await self.respond(request, await self.asked(request))
        await response(scope, receive, send)

    async def asked(self, request: Request) -> Asked:
        route = self.route
        if route.method == "GET":
            query = request.scope["query_string"].decode("latin-1")
            return from_query(route.fields, _pairs(query))
        body = await request.body()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        read = partial(_asked, route.fields, body, is_form=kind == FORM)
        return await asyncio.to_thread(read) if len(body) > ASIDE else read()

    async def respond(self, request: Request, asked: Asked) -> Response:
        route = self.route
        if route.work is None:
            assert route.direct is not None
            call = partial(route.direct, self.house, asked, request.path_params)
            return _response(await asyncio.to_thread(call) if route.reads_files else call())
        verb = route.verb(asked) if callable(route.verb) else route.verb
        suits = partial(route.suits, asked) if route.suits else lambda outline: True
        entry = await self.house.table.pick(asked.get("model"), verb, suits)
        streams = bool(asked.get("stream"))
        job = Job(partial(_done, route.work, entry, asked), seconds=route.seconds)
        job.count = partial(self.house.metrics.wrote, entry.name)
        entry.engine.submit(job)
        return Stream(job, route.render, route.last) if streams else await whole(request, job)


def _asked(known: Fields, body: bytes, *, is_form: bool) -> Asked:
    return from_query(known, _pairs(body.decode("latin-1"))) if is_form else decoded(known, parsed(body))


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=50, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise Problem(400, "the query or the form cannot be read", code="bad_query") from None


def _done(work: Work, entry: Entry, asked: Asked, job: Job) -> Any:
    """Turned into bytes here, on the model's thread: large answers must not hold up the loop."""
    result = work(entry, asked, job)
    return result if result is LATER or isinstance(result, Bytes) else encoded(result)


def _response(value: Any) -> Response:
    if isinstance(value, Response):
        return value
    return Response(encoded(value), media_type="application/json")
