"""What a refusal must be: our own error, naming what it is about, saying what to do, and soon."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.errors import UserError

SECONDS = 10.0
"A busy machine is slow; a refusal takes milliseconds."


@contextmanager
def refused(*parts: object, seconds: float = SECONDS, hint: bool = True) -> Iterator[None]:
    start = time.perf_counter()
    with pytest.raises(UserError) as caught:
        yield
    assert time.perf_counter() - start < seconds
    shown = str(caught.value)
    for part in parts:
        assert str(part) in shown, shown
    assert caught.value.hint or not hint, f"this does not say what to do: {shown}"
    assert len(shown) < 5000
    assert not any(sign in shown for sign in ("Traceback", "object at 0x")), shown


STATUS = Path("/proc/self/status")

# Not getrusage: its peak is inherited, so a child of this large process would start from that one's size.
MEASURE = """
import json, re, sys
import torch, regard, regard.weights.store
from regard.errors import UserError

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

before, error = peak(), ""
try:
    {action}
except UserError as caught:
    error = str(caught)
print(json.dumps([error, peak() - before]))
"""


def measured(action: str, *arguments: Path | str) -> tuple[str, int]:
    """`action` in a process of its own: the message of its UserError and by how many bytes its memory grew at most."""
    if not STATUS.exists():
        pytest.skip("peak memory is measured on Linux only")
    command = [sys.executable, "-c", MEASURE.format(action=action), *map(str, arguments)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert child.returncode == 0, child.stderr
    message, grown = json.loads(child.stdout)
    return message, grown
