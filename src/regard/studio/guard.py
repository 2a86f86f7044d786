"""The door: who may speak to the server, how much at once and how slowly; and what every answer carries.

A page of a stranger in the user's browser can reach a server on this machine. It is kept out by the name it calls us
(`Host`, against DNS rebinding), by where it comes from (`Origin`, `Sec-Fetch-Site`) and by what it may send without
being asked (only JSON is read). Paths are looked at as they came, never as a URL put together from the `Host`.
"""

import asyncio
import hmac
import logging
import time
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.studio.engine import place_of
from regard.studio.metrics import Metrics
from regard.studio.problem import Problem, problem_of

MAX_BODY, BODY_SECONDS = 1 << 20, 10.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
COOKIE = "regard_token"
FORM = "application/x-www-form-urlencoded"
FORMS = {"/translate"}
"Paths whose clients send forms."
PICTURES, MAX_PICTURE_BODY = {"/api/image", "/api/image/head"}, 8 << 20
"Paths to which pictures are sent, and how much a request may have there."
OPEN_PAGES = ("/", "/static/")
"What a link on another page may lead to."

log = logging.getLogger("regard.studio")


class Rules(NamedTuple):
    hosts: frozenset[str] | None = LOOPBACK
    "Names we answer to; None is any, which needs a token."
    token: str | None = None
    max_body: int = MAX_BODY
    body_seconds: float = BODY_SECONDS
    policy: str = "default-src 'self'"
    "Content-Security-Policy of every answer."


class Guard:
    def __init__(self, app: ASGIApp, rules: Rules, metrics: Metrics) -> None:
        self.app, self.rules, self.metrics = app, rules, metrics
        always = {
            "content-security-policy": rules.policy,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cache-control": "no-store",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        }
        self._always = [(name.encode(), value.encode()) for name, value in always.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message.get("headers", [])}
                extra = [pair for pair in self._always if pair[0] not in given]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        scope["app"] = self  # so the router raises what it does not find
        try:
            await self._let_in(scope, receive, answer)
        except Exception as error:
            if status:  # too late to say it: the line is cut
                raise
            await refuse(_known(error), answer)
        finally:
            self.metrics.count(scope, status, time.monotonic() - began)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope)
        check_host(headers, self.rules.hosts)
        path, method = scope["path"], scope["method"]
        check_origin(headers, path, method)
        if self.rules.token is not None and path != "/livez":
            asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if path == "/" and asked and same(asked, self.rules.token):
                await welcome(send, self.rules.token)
                return
            check_token(headers, self.rules.token)
        if method == "POST":
            check_type(headers, path)
            most = max(self.rules.max_body, MAX_PICTURE_BODY if path in PICTURES else 0)
            receive = await self._read(headers, receive, most)
        await self.app(scope, receive, send)

    async def _read(self, headers: "Headers", receive: Receive, most: int) -> Receive:
        """The whole body, which must come soon and be small; after it the line is listened to as before."""
        size = headers.one("content-length")
        if size.isascii() and size.isdigit() and int(size[:20]) > most:
            raise _too_large(most)
        body = bytearray()
        try:
            async with asyncio.timeout(self.rules.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, "the request was cut short", code="cut")
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _too_large(most)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Problem(408, "the request came too slowly", code="slow") from None
        return _Replay(bytes(body), receive)


def _too_large(most: int) -> Problem:
    return Problem(413, f"the request has more than {most:,} bytes", code="too_large")


class _Replay:
    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


class Headers:
    """By lower-case name, as they came; twice the same is no header at all."""

    def __init__(self, scope: Scope) -> None:
        self._all: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._all.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def one(self, name: str) -> str:
        values = self._all.get(name, [])
        return values[0] if len(values) == 1 else ""

    def has(self, name: str) -> bool:
        return name in self._all


def check_host(headers: Headers, hosts: frozenset[str] | None) -> None:
    if hosts is None:
        return
    name, _, port = headers.one("host").lower().rpartition(":")
    if not name or not port.isdigit():  # no port, or an IPv6 address without one
        name = headers.one("host").lower()
    if name not in hosts:
        raise Problem(400, "this host name is not served here", hint=f"use {', '.join(sorted(hosts))}", code="host")


def check_origin(headers: Headers, path: str, method: str) -> None:
    """Pages from elsewhere may only be followed by a link to ours."""
    site = headers.one("sec-fetch-site")
    asks = method not in ("GET", "HEAD") or not (path == "/" or path.startswith(OPEN_PAGES[1:]))
    if asks and site not in ("", "same-origin", "none"):
        raise Problem(403, "requests of other sites are refused", code="origin")
    if headers.has("origin"):
        origin = urlsplit(headers.one("origin"))
        if origin.scheme not in ("http", "https") or origin.netloc.lower() != headers.one("host").lower():
            raise Problem(403, "requests of other origins are refused", code="origin")


def check_type(headers: Headers, path: str) -> None:
    kind = headers.one("content-type").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind == FORM and path in FORMS):
        raise Problem(415, "only JSON is read here", hint="send Content-Type: application/json", code="content_type")


def same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def check_token(headers: Headers, token: str) -> None:
    scheme, _, given = headers.one("authorization").partition(" ")
    if scheme.lower() != "bearer":
        given = ""
    try:
        jar = SimpleCookie(headers.one("cookie"))
    except CookieError:
        jar = SimpleCookie()
    kept = jar[COOKIE].value if COOKIE in jar else ""
    if not same(given.strip(), token) and not same(kept, token):
        raise Problem(401, "the token is missing or wrong", hint="send Authorization: Bearer TOKEN", code="token")


async def welcome(send: Send, token: str) -> None:
    """Keep the token and take it out of the address, where it would be seen and saved."""
    cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
    headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _known(error: Exception) -> Problem:
    if isinstance(error, HTTPException):
        what = {404: "there is no such page", 405: "this page takes another method"}.get(
            error.status_code, error.detail
        )
        allow = (error.headers or {}).get("Allow", "")
        return Problem(error.status_code, what, hint="GET /openapi.json lists them all", code="not_found", allow=allow)
    found = problem_of(error)
    if found.status == 500:
        log.error("%s at %s", type(error).__name__, place_of(error))
    return found


async def refuse(problem: Problem, send: Send) -> None:
    body = problem.body()
    more = {"content-type": "application/json", "content-length": str(len(body)), **problem.headers}
    headers = [(name.encode(), value.encode()) for name, value in more.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
