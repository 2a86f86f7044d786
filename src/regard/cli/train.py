"""`regard train`: from sentence pairs to a translator, by one TOML file."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from regard.cli.progress import TrainingLine
from regard.errors import USAGE, UserError
from regard.files import expanded
from regard.runlog import RunLog

if TYPE_CHECKING:
    from regard.training.config import RunConfig
    from regard.training.loop import Trainer
    from regard.training.ranks import Ranks

# Read when torch is loaded. Of a rank that is gone it warns with pages of C++ frames; we name the rank.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

EXAMPLES = """\b
Examples:
  regard train multi30k-de-en --out runs/multi30k
  regard train my.toml --out runs/mine --set train.steps=2000 --set data.train='["a.de", "a.en"]'
  torchrun --standalone --nproc-per-node 2 -m regard train my.toml --out runs/mine --set train.parallel=ddp
"""


@click.command(epilog=EXAMPLES)
@click.argument("recipe")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The run's folder.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Override a key, e.g. train.lr=0.001.")
def command(recipe: str, out: Path, assignments: tuple[str, ...]) -> None:
    """Train a model as RECIPE says: a TOML file, or the name of one that ships (`regard list recipes`).

    Everything goes into the folder --out: the resolved run.toml, the log, checkpoints, and in the end the model.
    """
    from regard.training.model import check_model
    from regard.training.run import read_run

    config = with_absolute_paths(read_run(find_recipe(recipe), assignments))
    check_model(config)
    run(config, expanded(out), is_new=True)


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
    from regard.errors import pick

    shipped = {file.stem: file for file in (Path(__file__).parent.parent / "recipes").glob("*.toml")}
    return pick(name, shipped, "recipe", listing="regard list recipes")


def run(config: "RunConfig", out: Path, *, is_new: bool) -> None:
    """Train in `out`, alone or with the ranks that torchrun has started; what went wrong is said once."""
    with entering(config) as ranks:
        try:
            train(config, out, ranks, is_new=is_new)
        except UserError as error:
            if ranks.is_first or error is ranks.own:
                raise
            raise click.exceptions.Exit(error.exit_code) from error


def entering(config: "RunConfig") -> AbstractContextManager["Ranks"]:
    from regard.training.ranks import Ranks

    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return nullcontext(Ranks(config.train.device))
    from regard.training.distributed import joined

    return joined(config.train)


class Mute(TrainingLine):
    """On all ranks but the first."""

    def show(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...


def train(config: "RunConfig", out: Path, ranks: "Ranks", *, is_new: bool) -> None:
    """Until the end or Ctrl-C; says what to type next."""
    from regard.training.run import LOG_FILE, finish, is_finished, write_run
    from regard.training.tensorboard import TensorBoard

    line, log = TrainingLine() if ranks.is_first else Mute(), RunLog(out / LOG_FILE)
    with ExitStack() as stack:
        ranks.first("opening the folder", lambda: open_folder(stack, config, out, is_new=is_new))
        trainer = prepared(config, out, line, log, ranks)
        # only now, and not before: a setting that was refused is not kept
        ranks.first("writing run.toml", lambda: write_run(config, out))
        if ranks.first("looking for the model", lambda: is_finished(trainer)):
            line.say(f"already finished: {out / 'model'}")
            return
        if ranks.is_first:
            board = stack.enter_context(closing(TensorBoard(out / "tensorboard", trainer.progress.step)))
            trainer.listeners.append(board)
        stop = stack.enter_context(stopping(line))
        if trainer.fit(stop) == "stopped":
            if not trainer.progress.step:
                raise not_begun(out, stop.number)
            line.say(f"saved. Go on with: regard resume {out}")
            raise click.exceptions.Exit(128 + stop.number)
        place, validation = finish(trainer)
    if ranks.is_first:
        scores = [score for score in (validation.bleu, validation.chrf) if score] if validation else []
        log("model", path=str(place), **{score.name: score.value for score in scores})
        for score in scores:
            line.say(f"{score}  ({score.signature})")
        click.echo(place)


def open_folder(stack: ExitStack, config: "RunConfig", out: Path, *, is_new: bool) -> None:
    """Locked until the run ends. torchrun starts the same command again when a rank has died: the run then goes on."""
    from regard.training.folder import locked
    from regard.training.run import RUN_FILE, read_run, write_run

    job = os.environ.get("TORCHELASTIC_RUN_ID", "")
    stack.enter_context(locked(out, "" if job == "none" else job))
    has_begun = (out / "checkpoints").exists() and (out / RUN_FILE).exists()
    if is_new and not (job and has_begun and read_run(out / RUN_FILE) == config):
        clear(out)
        write_run(config, out)


def clear(out: Path) -> None:
    """Make room for a new run where an earlier start failed; a run with checkpoints is never touched."""
    from regard.training.run import RUN_FILE

    if not is_run(out / RUN_FILE):
        theirs = [name for name in (RUN_FILE, *PLACES) if (out / name).exists()]
        if theirs:
            hint = "choose another folder with --out"
            raise UserError(f"{out} holds {theirs[0]}, which no run of regard wrote", hint, exit_code=USAGE)
        return
    if (out / "checkpoints").exists():
        raise UserError(f"{out} holds a run already", f"go on with `regard resume {out}`", exit_code=USAGE)
    for leftover in ("tokenizer", "data", "tensorboard"):
        shutil.rmtree(out / leftover, ignore_errors=True)


PLACES = ("tokenizer", "data", "checkpoints", "best", "model", "tensorboard")
"Folders that a run makes in its own."


def is_run(file: Path) -> bool:
    """Whether this run.toml was written by `regard train`, and is not a recipe that lies here."""
    from regard.training.run import MARK

    return file.is_file() and file.read_bytes().startswith(MARK.encode())


def prepared(config: "RunConfig", out: Path, line: TrainingLine, log: RunLog, ranks: "Ranks") -> "Trainer":
    """All that comes before the first step. It can be done again at any time, so Ctrl-C leaves at once."""
    from regard.training.run import assemble, data_report

    def tell() -> None:
        found = data_report(config)
        line.say(str(found))
        log("report", **found.to_dict())

    try:
        with handling(leave):
            ranks.first("looking at the data", tell, patient=True)
            trainer = assemble(config, out, [line, log] if ranks.is_first else [], ranks)
    except KeyboardInterrupt as error:
        raise not_begun(out, *error.args) from None
    line.say(f"{type(trainer.model).__name__}: {trainer.model.n_parameters / 1e6:.1f} M parameters")
    return trainer


def leave(number: int, _frame: Any) -> None:
    raise KeyboardInterrupt(number)


def not_begun(out: Path, number: int = signal.SIGINT) -> UserError:
    if (out / "checkpoints" / "latest").is_file():
        message, hint = "the last checkpoint is as it was", f"go on with: regard resume {out}"
    else:
        message, hint = "nothing was saved yet", f"start again with the same command: regard train ... --out {out}"
    return UserError(f"stopped before a step was taken; {message}", hint, exit_code=128 + number)


class Stop(Event):
    number: int = signal.SIGINT
    "The signal that was sent; another rank's is taken for Ctrl-C."


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
def stopping(line: TrainingLine) -> Iterator[Stop]:
    """The first Ctrl-C asks the loop to save and stop, the second leaves at once."""
    stop = Stop()

    def handle(number: int, _frame: Any) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()
        stop.number = number
        again = "press Ctrl-C again to leave at once" if number == signal.SIGINT else "a second signal ends it at once"
        line.say(f"finishing this step and saving; {again}")

    with handling(handle):
        yield stop
