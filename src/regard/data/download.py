"""One file from the network: whole and as promised, or not at all."""

import contextlib
import hashlib
import http.client
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from regard.errors import BAD_INPUT, FAILURE, USAGE, UserError
from regard.files import flush

SECONDS = 30.0
"How long a server may be silent."
CHUNK = 1 << 16
LOCAL = {"127.0.0.1", "localhost", "::1"}
AGAIN = "run the same command again; what arrived whole is kept, half a file is not"
ROOM = "make room, or give another folder with --to"

Listener = Callable[[int, int | None], None]
"Told of the bytes so far and, where the server says it, of how many there will be."


def is_local(url: str) -> bool:
    return urlsplit(url).scheme == "http" and urlsplit(url).hostname in LOCAL


def check_address(url: str) -> None:
    """Nobody on the way may read or change what is fetched; this computer itself is no way."""
    with contextlib.suppress(ValueError):  # brackets that do not match
        parts = urlsplit(url)
        if (parts.scheme == "https" and parts.hostname) or is_local(url):
            if "@" not in parts.netloc:
                return
            hint = "give the address without what stands before the @"  # it would be shown, and not be sent
            raise UserError(f"the address of {host(url)} has a name or a password in it", hint, exit_code=USAGE)
    hint = "only https:// is fetched, and http:// from this computer (127.0.0.1, localhost)"
    raise UserError(f"the address {url[:200]!r} is refused", hint, exit_code=USAGE)


class _Redirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        # Only this computer may send us to this computer: a stranger has no business with its servers.
        if urlsplit(newurl).scheme != "https" and not (is_local(newurl) and is_local(req.full_url)):
            said = f"{host(req.full_url)} sends us on to {newurl[:200]!r}, which is not https"
            raise UserError(said, "give another source with --from URL", exit_code=FAILURE)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def host(url: str) -> str:
    """Its name for messages, without a password that may stand before it."""
    return urlsplit(url).netloc.rpartition("@")[2]


def fetch(url: str, target: Path, *, limit: int, sha256: str | None, heard: Listener) -> str:
    """Write what `url` sends to `target`, which appears when it is whole; gives its sha256."""
    check_address(url)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    with contextlib.closing(_open(url)) as response, _folder(target.parent):
        try:
            found = _write(_receive(response, url, limit, heard), temporary)
            if sha256 and found != sha256:
                said = f"{url} is not the file it should be: its sha256 is {found}, expected {sha256}"
                raise UserError(said, "it was not kept; the source has changed or is not to be trusted")
            os.replace(temporary, target)
            flush(target.parent)
        except OSError as error:
            raise UserError(f"cannot write {target}: {error.strerror or error}", ROOM, exit_code=FAILURE) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    return found


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder; should the work in it fail, those that had to be made go again."""
    made = [place for place in (path, *path.parents) if not place.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror or error}", ROOM, exit_code=FAILURE) from error
    except BaseException:
        with contextlib.suppress(OSError):  # somebody has put a file there meanwhile
            for place in made:
                place.rmdir()
        raise


def _open(url: str) -> http.client.HTTPResponse:
    # A proxy cannot reach this computer's own servers.
    opener = build_opener(_Redirects, *([ProxyHandler({})] if is_local(url) else []))
    request = Request(url, headers={"User-Agent": "regard", "Accept-Encoding": "identity"})
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=SECONDS)
        return response
    except HTTPError as error:
        error.close()
        hint = "it may have moved: look at its home, or give another source with --from URL"
        if error.code >= 500:
            hint = "that is the server's trouble: try again later, or give another source with --from URL"
        said = f"{host(url)} answers {error.code} ({error.reason}) to {url}"
        raise UserError(said, hint, exit_code=FAILURE) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        _lost(url, error)


def _lost(url: str, error: Exception) -> NoReturn:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        said = f"{host(url)} has been silent for {SECONDS:g} seconds"
        raise UserError(said, f"{AGAIN}; --from URL names another source", exit_code=FAILURE) from error
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    hint = "is there a network? With one, --from URL names another source"
    raise UserError(f"cannot reach {host(url)}: {text}", hint, exit_code=FAILURE) from error


def _receive(response: http.client.HTTPResponse, url: str, limit: int, heard: Listener) -> Iterator[bytes]:
    promised = response.length  # None where the server does not say
    if promised is not None and promised > limit:
        _too_large(url, promised, limit)
    done = 0
    while promised is None or done < promised:  # a server may keep the line open after the last byte
        try:
            chunk = response.read1(CHUNK if promised is None else min(CHUNK, promised - done))
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, TimeoutError):
                _lost(url, error)
            _cut(url, done, promised)
        if not chunk:
            break
        done += len(chunk)
        if done > limit:
            _too_large(url, done, limit)
        heard(done, promised)
        yield chunk
    if promised is not None and done < promised:
        _cut(url, done, promised)


def _cut(url: str, done: int, promised: int | None) -> NoReturn:
    of = f" of {promised:,}" if promised is not None else ""
    raise UserError(f"{host(url)} broke off after {done:,}{of} bytes of {url}", AGAIN, exit_code=FAILURE)


def _too_large(url: str, size: int, limit: int) -> NoReturn:
    said = f"{url} has at least {size:,} bytes, expected at most {limit:,}"
    raise UserError(said, "it was not kept; this is not the file that the catalogue means", exit_code=BAD_INPUT)


def _write(chunks: Iterator[bytes], path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
