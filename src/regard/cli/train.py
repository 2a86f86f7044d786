"""`regard train`: from sentence pairs to a translator, by one TOML file."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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
    from regard.training.loop import Trainer

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
    from regard.training.run import check_model, read_run

    config = with_absolute_paths(read_run(find_recipe(recipe), assignments))
    check_model(config)
    run(config, out, is_new=True)


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


def run(config: "RunConfig", out: Path, *, is_new: bool) -> None:
    """Train in `out` until the end or Ctrl-C, and say what to type next."""
    from regard.training.folder import locked
    from regard.training.run import LOG_FILE, finish, write_run
    from regard.training.tensorboard import TensorBoard

    line, log = TrainingLine(), RunLog(out / LOG_FILE)
    with locked(out):
        if is_new:
            clear(out)
            write_run(config, out)
        trainer = prepared(config, out, line, log)
        if not is_new:
            write_run(config, out)  # only now: a setting that was refused is not kept
        if trainer.progress.step >= config.train.steps and (out / "model").is_dir():
            line.say(f"already finished: {out / 'model'}")
            return
        board = TensorBoard(out / "tensorboard", trainer.progress.step)
        trainer.listeners.append(board)
        with closing(board), stopping(line) as stop:
            if trainer.fit(stop) == "stopped":
                if not trainer.progress.step:
                    raise not_begun(out)
                line.say(f"saved. Go on with: regard resume {out}")
                raise click.exceptions.Exit(INTERRUPTED)
            place, validation = finish(trainer)
    scores = [score for score in (validation.bleu, validation.chrf) if score] if validation else []
    log("model", path=str(place), **{score.name: score.value for score in scores})
    for score in scores:
        line.say(f"{score}  ({score.signature})")
    click.echo(place)


def clear(out: Path) -> None:
    """Make room for a new run where an earlier start failed; a run with checkpoints is never touched."""
    from regard.training.run import RUN_FILE

    if not (out / RUN_FILE).exists():
        return  # whatever stands here is not ours
    if (out / "checkpoints").exists():
        raise UserError(f"{out} holds a run already", f"go on with `regard resume {out}`", exit_code=USAGE)
    for leftover in ("tokenizer", "data", "tensorboard"):
        shutil.rmtree(out / leftover, ignore_errors=True)


def prepared(config: "RunConfig", out: Path, line: TrainingLine, log: RunLog) -> "Trainer":
    """All that comes before the first step. It can be done again at any time, so Ctrl-C leaves at once."""
    from regard.training.run import assemble, data_report

    try:
        with handling(signal.default_int_handler):
            found = data_report(config)
            line.say(str(found))
            log("report", **found.to_dict())
            trainer = assemble(config, out, [line, log])
    except KeyboardInterrupt:
        raise not_begun(out) from None
    line.say(f"{type(trainer.model).__name__}: {trainer.model.n_parameters / 1e6:.1f} M parameters")
    return trainer


def not_begun(out: Path) -> UserError:
    if (out / "checkpoints" / "latest").is_file():
        message, hint = "the last checkpoint is as it was", f"go on with: regard resume {out}"
    else:
        message, hint = "nothing was saved yet", f"start again with the same command: regard train ... --out {out}"
    return UserError(f"stopped before a step was taken; {message}", hint, exit_code=INTERRUPTED)


@contextmanager
def handling(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """What Ctrl-C and a polite kill do meanwhile."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def stopping(line: TrainingLine) -> Iterator[Event]:
    """The first Ctrl-C asks the loop to save and stop, the second leaves at once."""
    stop = Event()

    def handle(number: int, _frame: Any) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()
        line.say("finishing this step and saving; press Ctrl-C again to leave at once")

    with handling(handle):
        yield stop
