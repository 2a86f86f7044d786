"""`regard list`: what exists."""

import json
import textwrap
from pathlib import Path
from typing import Any

import click

from regard.cli.get import size_text
from regard.cli.terminal import columns
from regard.cli.waiting import waiting
from regard.config import read_toml, to_dict
from regard.pretrained.bundled import BUNDLED, size_of

EXAMPLES = """\b
Examples:
  regard list
  regard list presets
  regard list recipes --json
  regard list data
"""
KINDS = ["families", "presets", "recipes", "data", "models"]
TO_FETCH = {"data", "models"}
MODELS = Path(__file__).parent.parent / "models"


@click.command(epilog=EXAMPLES)
@click.argument("kind", type=click.Choice(KINDS), default="families")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(kind: str, as_json: bool) -> None:
    """List what exists.

    The families of models, their named sizes (presets), the training runs that ship (recipes), the models that come
    with the package (bundled), or the public data and models that `regard get` fetches by name.
    """
    rows: dict[str, Any] = find_public(kind) if kind in TO_FETCH else find(kind)
    if kind == "presets":
        with waiting("counting parameters"):
            rows = find_presets()
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    table = [[name, *cells(row)] for name, row in rows.items()]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        click.echo(folded(row, widths))
    if kind == "families":
        click.echo(f"`regard list {' | '.join(KINDS[1:])}` shows the rest", err=True)


def folded(row: list[str], widths: list[int]) -> str:
    """The last column takes what the terminal leaves, on as many lines as it needs."""
    start = "".join(f"{text:{width}}  " for text, width in zip(row[:-1], widths, strict=False))
    lines = textwrap.wrap(row[-1], max(20, columns() - len(start)), break_on_hyphens=False) or [""]
    return ("\n" + " " * len(start)).join([start + lines[0], *lines[1:]]).rstrip()


def cells(row: str | dict[str, Any]) -> list[str]:
    if isinstance(row, str):
        return [row]
    if "parameters" in row:
        from regard.inspection.summary import human

        n_layers = f"{row['layers']} layer{'s' * (row['layers'] != 1)}"
        return [row["family"], human(row["parameters"]), n_layers, f"d_model {row['d_model']}"]
    return [size_text(row["size"]), f"{row['about']}; licence: {row['licence']}"]


def find(kind: str) -> dict[str, str]:
    """What a table says of each; no model's code is imported for it."""
    if kind == "recipes":
        files = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
        return {file.stem: str(read_toml(file).get("about", "")) for file in files}
    families = read_toml(MODELS / "families.toml")
    if kind == "families":
        return families
    return {preset: name for name in families for preset in read_toml(MODELS / "presets" / f"{name}.toml")}


def find_presets() -> dict[str, dict[str, Any]]:
    """Named sizes; models without memory are counted, so what is said is what would be built."""
    from regard.models.registry import FAMILIES, build_preset

    return {
        preset: {
            "family": name,
            "parameters": build_preset(preset, device="meta").n_parameters,
            "layers": getattr(config, "n_layers", 0),
            "d_model": config.filled()["d_model"],
        }
        for name, family in FAMILIES.items()
        for preset, config in family.presets.items()
    }


def find_public(kind: str) -> dict[str, dict[str, Any]]:
    """Everything the catalogue says; a size, a revision or a checksum that is not known is null."""
    from regard.data.catalogue import read_catalogue

    known = read_catalogue()
    entries = known.data if kind == "data" else known.models
    here = {} if kind == "data" else find_bundled()
    return here | {name: {**to_dict(entry), "size": entry.size, "home": entry.home} for name, entry in entries.items()}


def find_bundled() -> dict[str, dict[str, Any]]:
    """What comes with the package; in a source checkout perhaps without its weights, and then of no known size."""
    return {
        name: {"about": f"bundled: {model.about}", "licence": model.licence, "size": size_of(name), "home": "bundled"}
        for name, model in BUNDLED.items()
    }
