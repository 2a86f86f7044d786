"""`regard verify`: every equality that is promised, checked on the user's own model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.listing import find
from regard.cli.opening import check_name, find_model
from regard.cli.waiting import waiting
from regard.errors import FAILURE, UserError

if TYPE_CHECKING:
    from regard.lab.subject import Subject
    from regard.lab.verify import Row

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
    is_preset = model in find("presets") and not Path(model).exists()
    if not is_preset:
        check_name(model)
    with waiting(f"opening {model}"):
        from regard.lab.verify import CHECKS, examine

        subject = build_subject(model) if is_preset else open_subject(model)
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


def build_subject(preset: str) -> "Subject":
    import torch

    from regard.lab.subject import Subject
    from regard.machine import memory_limit_bytes
    from regard.models.registry import build_preset

    needed, here = 4 * build_preset(preset, device="meta").n_parameters, memory_limit_bytes()
    if here is not None and needed > here:
        raise UserError(f"{preset} has {needed:,} bytes, this computer {here:,}", "verify a smaller one")
    torch.manual_seed(0)
    return Subject(build_preset(preset))


def open_subject(model: str) -> "Subject":
    from regard.lab.subject import Subject
    from regard.weights.store import load_model

    path = find_model(model)
    return Subject(load_model(path), path if (path / "config.json").exists() else None)


def show(row: "Row") -> str:
    if row.difference is None:
        return f"  -     {row.name:28} {row.note}"
    verdict = "ok  " if row.passed else "FAIL"
    note = f"  {row.note}" if row.note else ""
    return f"  {verdict}  {row.name:28} largest difference {row.difference:.1e}, allowed {row.tolerance:.1e}{note}"
