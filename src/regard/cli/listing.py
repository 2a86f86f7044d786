"""`regard list`: what exists."""

import json
from pathlib import Path

import click

from regard.config import read_toml

EXAMPLES = """\b
Examples:
  regard list
  regard list presets
  regard list recipes --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(["families", "presets", "recipes"]), default="families")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(kind: str, as_json: bool) -> None:
    """List the families of models, their named sizes (presets), or the training runs that ship (recipes)."""
    rows = find(kind)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    width = max(map(len, rows), default=0)
    for name, text in rows.items():
        click.echo(f"{name:{width}}  {text}")


def find(kind: str) -> dict[str, str]:
    if kind == "recipes":
        files = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
        return {file.stem: str(read_toml(file).get("about", "")) for file in files}
    from regard.models.registry import FAMILIES

    if kind == "families":
        return {name: family.summary for name, family in FAMILIES.items()}
    return {preset: name for name, family in FAMILIES.items() for preset in family.presets}
