"""`regard train`: from sentence pairs to a translator, by one TOML file."""

import difflib
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.running import run, starting
from regard.errors import QUOTED, UserError, cut
from regard.files import expanded

if TYPE_CHECKING:
    from regard.training.config import RunConfig

EXAMPLES = """\b
Examples:
  regard train multi30k-de-en --out runs/multi30k
  regard train my.toml --out runs/mine --set train.steps=2000 \\
               --set 'data.train=["a.de", "a.en"]'
  torchrun --standalone --nproc-per-node 2 -m regard train my.toml \\
           --out runs/mine --set train.parallel=ddp
"""
RECIPES = Path(__file__).parent.parent / "recipes"


@click.command(epilog=EXAMPLES)
@click.argument("recipe")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The run's folder.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Override a key, e.g. train.lr=0.001.")
def command(recipe: str, out: Path, assignments: tuple[str, ...]) -> None:
    """Train a model as RECIPE says: a TOML file, or the name of one that ships (`regard list recipes`).

    Everything goes into the folder --out: the resolved run.toml, the log, checkpoints, and in the end the model.
    A start that fails leaves nothing behind.
    """
    from regard.training.folder import read_run, refuse_taken
    from regard.training.sources import Sources

    config = with_absolute_paths(read_run(find_recipe(recipe), assignments))
    folder = expanded(out)
    if "WORLD_SIZE" not in os.environ:  # ranks look together: one that left alone would keep the others waiting
        refuse_taken(folder)
        Sources(config).check(("train", "valid", "test"))
    typed = ["regard", "train", recipe, "--out", str(out), *(part for each in assignments for part in ("--set", each))]
    with starting(recipe, folder, again=shlex.join(typed)) as sign:
        from regard.training.model import check_model

        check_model(config)
        run(config, folder, sign, is_new=True)


def with_absolute_paths(config: "RunConfig") -> "RunConfig":
    """So that the run goes on from any folder."""
    files: dict[str, Any] = {name: getattr(config.data, name) for name in ("train", "valid", "test")}
    found: dict[str, Any] = {
        name: tuple(str(expanded(path).absolute()) for path in paths) for name, paths in files.items()
    }
    return replace(config, data=replace(config.data, **found))


def find_recipe(name: str) -> Path:
    path = expanded(name)
    if path.is_file():
        return path
    shipped = {file.stem: file for file in RECIPES.glob("*.toml")}
    if name in shipped:
        return shipped[name]
    beside = sorted(str(path.with_name(file.name)) for file in path.parent.glob("*.toml"))
    near = difflib.get_close_matches(name[:QUOTED], [*beside, *shipped], n=1)
    hint = f"did you mean '{near[0]}'?" if near else "give a TOML file, or a name that `regard list recipes` shows"
    raise UserError(f"there is neither a file nor a recipe called '{cut(name, QUOTED)}'", hint)
