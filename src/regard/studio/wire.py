"""From a job to a response: whole, or as events while it goes on; and the end of the job when the client leaves."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.studio.engine import Job
from regard.studio.problem import Gone, Problem, encoded

STILL_HERE = 10.0
"Seconds of silence after which a stream says that it lives."
GRACE = 2.0
"Seconds beyond its deadline in which a job may say itself that it is late."

Render = Callable[[str, Any], bytes]


def sse(name: str, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), value if isinstance(value, bytes) else encoded(value))


class Bytes:
    """A result that is no JSON."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        self.body, self.headers = body, headers


async def left(receive: Receive) -> None:
    """Returns when the client has."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def news_of(job: Job) -> AsyncIterator[tuple[str, Any]]:
    """All of a job's news; silence shows as ('silence', None). The last is 'done' or 'error'."""
    while True:
        remaining = job.deadline + GRACE - time.monotonic()
        try:
            name, value = await asyncio.wait_for(job.news.get(), max(0.0, min(STILL_HERE, remaining)))
        except TimeoutError:
            if remaining <= STILL_HERE:
                job.cancel()
                yield "error", Problem(504, "the request took too long", hint="ask for less at once", code="timeout")
                return
            yield "silence", None
            continue
        yield name, value
        if name in ("done", "error"):
            return


async def whole(request: Request, job: Job) -> Response:
    """The result alone. If the client leaves before, the job is given up."""
    leaving = asyncio.ensure_future(left(request.receive))
    leaving.add_done_callback(lambda _: None if leaving.cancelled() else job.cancel())
    try:
        async for name, value in news_of(job):
            if name == "error":
                raise value
            if name == "done":
                if isinstance(value, Bytes):
                    return Response(value.body, headers=value.headers)
                return Response(value if isinstance(value, bytes) else encoded(value), media_type="application/json")
        raise Gone
    finally:
        leaving.cancel()
        if not job.is_over:
            job.cancel()


class Stream(Response):
    """Server-sent events. The first news decide the status: what fails at once fails as any request does."""

    def __init__(self, job: Job, render: Render = sse, last: bytes = b"") -> None:
        self.job, self.block, self.last = job, render, last
        self.background = None
        self.status_code = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(left(receive))
        sending = asyncio.ensure_future(self._send(send))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            leaving.cancel()
            sending.cancel()
            if not self.job.is_over:
                self.job.cancel()

    async def _send(self, send: Send) -> None:
        begun = False
        async for name, value in news_of(self.job):
            if not begun:
                if name == "error":
                    raise value
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                begun = True
            body = b": still here\n\n" if name == "silence" else self._block(name, value)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _block(self, name: str, value: Any) -> bytes:
        if name == "error":
            return self.block("error", value.to_dict())
        return self.block(name, value) + (self.last if name == "done" else b"")


HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
