"""`regard list`: what exists."""

import json

import click

EXAMPLES = """\b
Examples:
  regard list
  regard list presets
  regard list families --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(["families", "presets"]), default="families")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(kind: str, as_json: bool) -> None:
    """List the families of models, or their named sizes (presets)."""
    from regard.models.registry import FAMILIES

    if kind == "families":
        rows = {name: family.summary for name, family in FAMILIES.items()}
    else:
        rows = {preset: name for name, family in FAMILIES.items() for preset in family.presets}
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    width = max(map(len, rows), default=0)
    for name, text in rows.items():
        click.echo(f"{name:{width}}  {text}")
