"""`regard train`: from sentence pairs to a translator, by one TOML file."""

import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from regard.cli.progress import TrainingLine
from regard.errors import INTERRUPTED, USAGE, UserError
from regard.runlog import RunLog

if TYPE_CHECKING:
    from regard.training.config import RunConfig

EXAMPLES = """\b
Examples:
  regard train multi30k-de-en --out runs/multi30k
  regard train my.toml --out runs/mine --set train.steps=2000 --set data.train='["a.de", "a.en"]'
"""


@click.command(epilog=EXAMPLES)
@click.argument("recipe")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The run's folder.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Override a key, e.g. train.lr=0.001.")
def command(recipe: str, out: Path, assignments: tuple[str, ...]) -> None:
    """Train a model as RECIPE says: a TOML file, or the name of one that ships (`regard list recipes`).

    Everything goes into the folder --out: the resolved run.toml, the log, checkpoints, and in the end the model.
    """
    from regard.training.run import RUN_FILE, read_run, write_run

    config = with_absolute_paths(read_run(find_recipe(recipe), assignments))
    if (out / RUN_FILE).exists():
        if (out / "checkpoints").exists():
            raise UserError(f"{out} holds a run already", f"go on with `regard resume {out}`", exit_code=USAGE)
        for leftover in ("tokenizer", "data"):  # of a start that failed
            shutil.rmtree(out / leftover, ignore_errors=True)
    write_run(config, out)
    run(config, out)


def with_absolute_paths(config: "RunConfig") -> "RunConfig":
    """So that the run goes on from any folder."""
    files: dict[str, Any] = {name: getattr(config.data, name) for name in ("train", "valid", "test")}
    found: dict[str, Any] = {
        name: tuple(str(Path(path).expanduser().absolute()) for path in paths) for name, paths in files.items()
    }
    return replace(config, data=replace(config.data, **found))


def find_recipe(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    from regard.errors import pick

    shipped = {file.stem: file for file in (Path(__file__).parent.parent / "recipes").glob("*.toml")}
    return pick(name, shipped, "recipe", listing="regard list recipes")


def run(config: "RunConfig", out: Path) -> None:
    """Train in `out` until the end or Ctrl-C, and say what to type next."""
    from regard.training.folder import locked
    from regard.training.run import LOG_FILE, assemble, data_report, finish

    line, log = TrainingLine(), RunLog(out / LOG_FILE)
    stop = stop_on_signal(line)
    with locked(out):
        found = data_report(config)
        line.say(str(found))
        log("report", **found.to_dict())
        trainer = assemble(config, out, [line, log])
        line.say(f"{type(trainer.model).__name__}: {trainer.model.n_parameters / 1e6:.1f} M parameters")
        if trainer.progress.step >= config.train.steps and (out / "model").is_dir():
            line.say(f"already finished: {out / 'model'}")
            return
        how = trainer.fit(stop)
        if how == "stopped":
            line.say(f"saved. Go on with: regard resume {out}")
            sys.exit(INTERRUPTED)
        place, validation = finish(trainer)
    scores = [score for score in (validation.bleu, validation.chrf) if score] if validation else []
    log("model", path=str(place), **{score.name: score.value for score in scores})
    for score in scores:
        line.say(f"{score}  ({score.signature})")
    click.echo(place)


def stop_on_signal(line: TrainingLine) -> Event:
    """The first Ctrl-C asks the loop to save and stop, the second leaves at once."""
    stop = Event()

    def handle(number: int, _frame: Any) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()
        line.say("finishing this step and saving; press Ctrl-C again to leave at once")

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, handle)
    return stop
