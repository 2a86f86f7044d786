"""`regard verify`: every equality that is promised, checked on the user's own model."""

import json
import sys

import click

from regard.errors import FAILURE

EXAMPLES = """\b
Examples:
  regard verify path/to/model
  regard verify model.gguf --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str, as_json: bool) -> None:
    """Check on MODEL that cached = uncached, padding changes nothing, resumed = uninterrupted, and so on.

    A table with the largest difference of each; exit code 1 if one fails. A row that does not apply shows a dash.
    """
    from regard.lab.verify import verify
    from regard.weights.store import load_model

    rows = verify(load_model(model), (lambda row: None) if as_json else lambda row: click.echo(show(row)))
    if as_json:
        click.echo(json.dumps({"model": model, "rows": [row.to_dict() for row in rows]}))
    if not all(row.passed for row in rows):
        sys.exit(FAILURE)


def show(row: "object") -> str:
    from regard.lab.verify import Row

    assert isinstance(row, Row)
    if row.difference is None:
        return f"  -     {row.name}"
    verdict = "ok   " if row.passed else "FAIL "
    note = f"  {row.note}" if row.note else ""
    return f"  {verdict} {row.name:30} largest difference {row.difference:.1e} (allowed {row.tolerance:.0e}){note}"
