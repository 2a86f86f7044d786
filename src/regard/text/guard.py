"""The fence around the Rust library: whatever goes wrong in there leaves as our error.

`tokenizers` answers bad files with plain exceptions, and some with a Rust panic, which arrives as
`pyo3_runtime.PanicException`: a BaseException, so `except Exception` lets it through and the program dies.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from regard.errors import UserError

_MAX_REASON = 300  # a panic may quote the whole text it choked on


@contextmanager
def guarded(action: str, hint: str = "") -> Iterator[None]:
    """Turn errors and panics of the enclosed library call into UserError; interrupts pass.

    Keep the body to that one call: our own mistakes must stay tracebacks.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        raise UserError(f"{action} failed: {_reason(error)}", hint) from error
    except BaseException as error:
        # By name, because the class cannot be imported. KeyboardInterrupt, SystemExit, GeneratorExit
        # and asyncio's CancelledError are BaseExceptions too and are not ours to stop.
        if type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{action} failed: the tokenizer library broke down: {_reason(error)}", hint) from None


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _MAX_REASON else text[:_MAX_REASON] + " ..."
