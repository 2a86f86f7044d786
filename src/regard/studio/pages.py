"""The page: files of the package, read once, each served with what it is and how to tell whether it has changed."""

import base64
import gzip
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.studio.problem import Problem

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}
"Nothing else is served, whatever lies there."
NO_PAGE = b"<!doctype html><title>regard studio</title><p>The page is not in this copy of regard; the API is.</p>\n"


class File(NamedTuple):
    body: bytes
    packed: bytes
    kind: str
    etag: str


def read_files(folder: Path = STATIC) -> dict[str, File]:
    """By the path under /static/; a link that leads elsewhere is left out."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file() and path.suffix in TYPES and path.resolve().is_relative_to(folder.resolve()):
            found[path.relative_to(folder).as_posix()] = _file(path.read_bytes(), TYPES[path.suffix])
    found.setdefault("index.html", _file(NO_PAGE, TYPES[".html"]))
    return found


def _file(body: bytes, kind: str) -> File:
    return File(body, gzip.compress(body, mtime=0), kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def policy(index: bytes) -> str:
    """Only our own files, and those scripts that stand in the page itself, by their hash: the import map must."""
    inline = re.findall(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", index, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(each).digest()).decode() for each in inline]
    scripts = " ".join(["'self'", *(f"'sha256-{each}'" for each in hashes)])
    rules = {
        "default-src": "'self'",
        "script-src": scripts,
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


class Pages:
    """As an ASGI application; `/` is the page itself."""

    def __init__(self, files: dict[str, File]) -> None:
        self.files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        name = request.path_params.get("name", "index.html")
        if name not in self.files:
            raise Problem(404, "there is no such file", code="not_found")
        file = self.files[name]
        headers = {"etag": file.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == file.etag:
            await Response(status_code=304, headers=headers)(scope, receive, send)
            return
        body = file.body
        if "gzip" in request.headers.get("accept-encoding", ""):
            body, headers["content-encoding"] = file.packed, "gzip"
        await Response(body, media_type=file.kind, headers=headers)(scope, receive, send)
