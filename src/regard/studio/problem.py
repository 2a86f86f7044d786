"""What goes wrong with a request, as a status and one JSON object that says what and what to do."""

import json
import math
from typing import Any

from regard.decoding.scheduler import Full
from regard.errors import UserError, cut

BUSY_SECONDS = 2
"When to try again, for who was refused."
TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class Problem(Exception):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str = "",
        param: str | None = None,
        code: str | None = None,
        allow: str = "",
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.hint, self.param, self.code = status, cut(message, 2000), hint, param, code
        self.allow = allow

    def to_dict(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code, "hint": self.hint}
        return {"error": error}

    def body(self) -> bytes:
        return encoded(self.to_dict())

    @property
    def headers(self) -> dict[str, str]:
        if self.status in (429, 503):
            return {"retry-after": str(BUSY_SECONDS)}
        if self.status == 405:
            return {"allow": self.allow}
        return {"connection": "close"} if self.status in (408, 413) else {}


class Gone(Exception):
    """Nobody waits for the answer any more."""


def problem_of(error: BaseException) -> Problem:
    """Ours as they are; what the user did wrong with its hint; all else without a word about what it was."""
    match error:
        case Problem():
            return error
        case Full():
            return Problem(429, error.message, hint=error.hint, code="busy")
        case UserError():
            return Problem(400, error.message, hint=error.hint, code="bad_request")
        case MemoryError():
            return Problem(503, "out of memory", hint="give a shorter text or a smaller beam", code="out_of_memory")
        case Gone():
            return Problem(499, "the request was given up", code="cancelled")
    if "not enough memory" in str(error) or "can't allocate memory" in str(error):
        return problem_of(MemoryError())
    return Problem(500, "something went wrong in the server", hint="its terminal says what", code=type(error).__name__)


def encoded(value: Any) -> bytes:
    """JSON that every client reads: what is no number is null, half a character is its escape."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
