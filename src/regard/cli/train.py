"""`regard train`: from rows of text to a model, by one TOML file or a few options."""

import difflib
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.opening import check_name
from regard.cli.records import FOLDER
from regard.cli.running import run, starting
from regard.cli.terminal import tell
from regard.errors import QUOTED, USAGE, UserError, cut
from regard.files import expanded
from regard.pretrained.bundled import by_name

if TYPE_CHECKING:
    from regard.training.config import RunConfig

EXAMPLES = """\b
Examples:
  regard train multi30k-de-en --out runs/multi30k
  regard train my.toml --out runs/mine --set train.steps=2000 \\
               --set 'data.train=["a.de", "a.en"]'
  torchrun --standalone --nproc-per-node 2 -m regard train my.toml \\
           --out runs/mine --set train.parallel=ddp
  regard train --task classify --data reviews.csv --init minilm \\
               --out runs/reviews
"""
TASKS = [
    "translate", "classify", "tag", "answer", "fill", "generate", "recognise", "caption", "embed", "embed-in-context",
    "sentences", "replaced", "spans",
]  # fmt: skip
RECIPES = Path(__file__).parent.parent / "recipes"
SHIPPED = "regard:"


files = click.Path(path_type=Path)


@click.command(epilog=EXAMPLES)
@click.argument("recipe", required=False)
@click.option("--out", type=FOLDER, required=True, help="The run's folder.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Override a key, e.g. train.lr=0.001.")
@click.option(
    "--task",
    type=click.Choice(TASKS),
    metavar="TASK",
    help=f"Instead of a RECIPE: what to train for, with --data. One of {', '.join(TASKS)}.",
)
@click.option("--data", type=files, multiple=True, help="The rows to learn from: a table, or a text file a side.")
@click.option("--init", metavar="MODEL", help="Go on from this model: a directory, a name, hf:owner/name.")
@click.option("--column", "columns", multiple=True, help="A column of the table: texts first, then the label.")
@click.option("--valid", type=files, multiple=True, help="Rows to choose the best by; else a share of --data.")
@click.option("--test", type=files, multiple=True, help="Rows that must not be among the others; told if they are.")
def command(
    recipe: str | None,
    out: Path,
    assignments: tuple[str, ...],
    task: str | None,
    data: tuple[Path, ...],
    init: str | None,
    columns: tuple[str, ...],
    **sets: tuple[Path, ...],
) -> None:
    """Train a model as RECIPE says: a TOML file, or the name of one that ships (`regard list recipes`).

    Or without a recipe: what --task asks for, from the rows in --data. Everything goes into the folder --out: the
    resolved run.toml, the log, checkpoints, and in the end the model. A start that fails leaves nothing behind.
    """
    from regard.cli.quick import for_few_rows
    from regard.training.folder import read_run, refuse_taken, run_of
    from regard.training.sources import Sources

    if recipe is not None:
        if task or data or init or columns or any(sets.values()):
            hint = "change its keys with --set, or leave the recipe out"
            raise UserError("a recipe says itself what is trained on what", hint, exit_code=USAGE)
        config = read_run(find_recipe(recipe), assignments)
    else:
        config = run_of(asked(task, data, init, columns, sets), assignments)
    config = with_absolute_paths(config)
    folder = expanded(out)
    if "WORLD_SIZE" not in os.environ:  # ranks look together: one that left alone would keep the others waiting
        refuse_taken(folder)
        Sources(config).check(("train", "valid", "test"))
    if recipe is None:
        config = for_few_rows(config, assignments)
    if recipe is None and os.environ.get("RANK", "0") == "0":
        tell(f"the run, as {folder / 'run.toml'} will say it:\n\n{shown(config)}")
    with starting(recipe or f"a run to {task}", folder, again=retyped()) as sign:
        from regard.training.jobs.table import JOBS
        from regard.training.model import check_model
        from regard.training.sources import PICTURED

        check_model(config, JOBS[config.task].head, pictures=config.task in PICTURED)
        run(config, folder, sign, is_new=True)


def retyped() -> str:
    """The command that was given, to be given again."""
    context, words = click.get_current_context(), ["regard", "train"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            words += [str(each)] if isinstance(parameter, click.Argument) else [parameter.opts[0], str(each)]
    return shlex.join(words)


def asked(
    task: str | None,
    data: tuple[Path, ...],
    init: str | None,
    columns: tuple[str, ...],
    sets: dict[str, tuple[Path, ...]],
) -> dict[str, Any]:
    from regard.cli.quick import quick_run

    if task is not None and not data:
        hint = f"name the rows to learn from, for example: --task {task} --data my.csv"
        raise UserError("--task needs --data", hint, exit_code=USAGE)
    if task is None:
        hint = "give one (`regard list recipes`), or --task and --data: the end of `regard train --help` shows how"
        raise UserError("there is no recipe", hint, exit_code=USAGE)
    return quick_run(task, data, init, columns, **sets)


def shown(config: "RunConfig") -> str:
    """What differs from what is usual for the task: enough to read, and to write a recipe from."""
    from regard.config import to_dict, to_toml
    from regard.training.folder import run_of

    whole = to_dict(config)
    usual = to_dict(run_of({"task": config.task, "data": {"train": ["x"]}}, ()))
    kept = {
        key: {name: each for name, each in value.items() if each != usual[key].get(name)} if isinstance(value, dict)
        else value
        for key, value in whole.items()
        if key == "task" or value != usual[key]
    }  # fmt: skip
    return to_toml(kept)


def with_absolute_paths(config: "RunConfig") -> "RunConfig":
    """So that the run goes on from any folder."""
    files: dict[str, Any] = {name: getattr(config.data, name) for name in ("train", "valid", "test")}
    found: dict[str, Any] = {
        name: tuple(str(placed(path).absolute()) for path in paths) for name, paths in files.items()
    }
    model = config.model
    if isinstance(init := model.get("init"), str) and not init.startswith("hf:"):
        check_name(init)
        model = model | {"init": str(expanded(by_name(init)).absolute())}
    train = config.train
    if train.teacher and not train.teacher.startswith("hf:"):
        check_name(train.teacher)
        train = replace(train, teacher=str(expanded(train.teacher).absolute()))
    return replace(config, data=replace(config.data, **found), model=model, train=train)


def placed(path: str) -> Path:
    """`regard:` is the package itself, for recipes whose rows ship with it."""
    here = path.removeprefix(SHIPPED)
    return expanded(path) if here == path else RECIPES.parent / here


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
