"""`regard verify`: every equality that is promised, checked on the user's own model."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from regard.cli.progress import Line
from regard.cli.terminal import write
from regard.errors import FAILURE, UserError

if TYPE_CHECKING:
    from regard.lab.subject import Subject
    from regard.lab.verify import Row

SILENCE = 2.0
"Seconds that a person waits without a sign."
EXAMPLES = """\b
Examples:
  regard verify path/to/model
  regard verify model.gguf --json
  regard verify gpt2
"""


@click.command(epilog=EXAMPLES)
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str, as_json: bool) -> None:
    """Check on MODEL that cached = uncached, padding changes nothing, interrupted = uninterrupted, and so on.

    MODEL is a directory, a .gguf file, hf:owner/name or a preset, which gets random weights. A table with the largest
    difference of each; exit code 1 if one fails. A row that does not apply shows a dash and why.
    """
    with waiting(f"opening {model}"):
        from regard.lab.verify import CHECKS, examine

        subject = open_subject(model)
    rows = []
    for name in CHECKS:
        with waiting(f"checking {name}"):
            row = examine(subject, name)
        rows.append(row)
        if not as_json:
            click.echo(show(row))
    passed = all(row.passed for row in rows)
    if as_json:
        found = [row.to_dict() for row in rows]
        size = subject.model.n_parameters
        click.echo(json.dumps({"model": model, "parameters": size, "passed": passed, "rows": found}, allow_nan=False))
    if not passed:
        click.get_current_context().exit(FAILURE)


def open_subject(model: str) -> "Subject":
    import torch

    from regard.cli.opening import find_model
    from regard.lab.subject import Subject
    from regard.machine import memory_limit_bytes
    from regard.models.registry import FAMILIES, build_preset
    from regard.weights.store import load_model

    if not Path(model).exists() and any(model in family.presets for family in FAMILIES.values()):
        needed, here = 4 * build_preset(model, device="meta").n_parameters, memory_limit_bytes()
        if here is not None and needed > here:
            raise UserError(f"{model} has {needed:,} bytes, this computer {here:,}", "verify a smaller one")
        torch.manual_seed(0)
        return Subject(build_preset(model))
    path = find_model(model)
    return Subject(load_model(path), path if path.is_dir() else None)


def show(row: "Row") -> str:
    if row.difference is None:
        return f"  -     {row.name:28} {row.note}"
    verdict = "ok  " if row.passed else "FAIL"
    note = f"  {row.note}" if row.note else ""
    return f"  {verdict}  {row.name:28} largest difference {row.difference:.1e}, allowed {row.tolerance:.1e}{note}"


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on stderr what takes so long: with running seconds on a terminal, once elsewhere."""
    line, began, over = Line(), time.monotonic(), Event()

    def watch() -> None:
        pause: float | None = SILENCE
        while not over.wait(pause):
            pause = 1.0 if line.live else None
            line.show(f"{what} ... {time.monotonic() - began:.0f} s")

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if line.live and line.width:
            line.show("")  # spaces over the text
            write("\r")
