"""A run from its start to its end: alone or with others, stopped or not. What `train` and `resume` share."""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from regard.cli.outcome import describe, next_commands
from regard.cli.progress import Line, TrainingLine
from regard.cli.terminal import tell
from regard.cli.waiting import Sign, waiting
from regard.errors import USAGE, UserError
from regard.runlog import RunLog

if TYPE_CHECKING:
    from regard.data.report import Report
    from regard.training.config import RunConfig
    from regard.training.folder import Start
    from regard.training.loop import Trainer
    from regard.training.ranks import Ranks

# Read when torch is loaded. Of a rank that is gone it warns with pages of C++ frames; we name the rank.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

FEW_STEPS, FEW_VALID = 50, 50
"In so few steps hardly anything is learnt, and by so few rows hardly anything told apart."


@contextmanager
def starting(what: str, out: Path, *, again: str) -> Iterator[Sign]:
    """Around a whole run. What comes before the first step can be done again, so Ctrl-C leaves at once."""
    is_first = os.environ.get("RANK", "0") == "0"
    try:
        with handling(leave), waiting(f"opening {what}", is_heard=is_first) as sign:
            yield sign
    except KeyboardInterrupt as error:
        if is_first:
            tell(left_early(out, again))
        number: int = error.args[0] if error.args else signal.SIGINT
        raise click.exceptions.Exit(128 + number) from None


def left_early(out: Path, again: str) -> str:
    from regard.training.folder import has_checkpoint

    if has_checkpoint(out):
        saved = f"the last checkpoint is as it was\n  go on with: regard resume {shlex.quote(str(out))}"
        return f"stopped; {saved}"
    if "WORLD_SIZE" in os.environ:
        again = "the same command"
    return f"stopped before the first step; nothing was saved\n  start again with: {again}"


def run(config: "RunConfig", out: Path, sign: Sign, *, is_new: bool) -> None:
    """Train in `out`, alone or with the ranks that torchrun has started; what went wrong is said once."""
    with entering(config) as ranks:
        try:
            train(config, out, ranks, sign, is_new=is_new)
        except UserError as error:
            if ranks.is_first or error is ranks.own:
                raise
            raise click.exceptions.Exit(error.exit_code) from error


def entering(config: "RunConfig") -> AbstractContextManager["Ranks"]:
    import torch

    from regard.training.ranks import Ranks

    place = [os.environ.get(name, usual) for name, usual in (("WORLD_SIZE", "1"), ("RANK", "0"), ("LOCAL_RANK", "0"))]
    if not all(map(str.isdecimal, place)) or ("WORLD_SIZE" in os.environ and "RANK" not in os.environ):
        said = f"WORLD_SIZE, RANK and LOCAL_RANK are {', '.join(map(repr, place))} in the environment"
        raise UserError(said, "torchrun sets them; without it, unset all three", exit_code=USAGE)
    if config.train.device == "cuda" and int(place[2]) >= (found := torch.cuda.device_count()):
        said = f'train.device is "cuda" and needs GPU {place[2]}, but torch finds {found} of them here'
        raise UserError(said, "start fewer ranks, or train without: --set train.device=cpu", exit_code=USAGE)
    if place[0] == "1":
        return nullcontext(Ranks(config.train.device))
    from regard.training.distributed import joined

    return joined(config.train)


class Mute(TrainingLine):
    """On all ranks but the first."""

    def show(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...


def train(config: "RunConfig", out: Path, ranks: "Ranks", sign: Sign, *, is_new: bool) -> None:
    """Until the end or Ctrl-C; says what to type next."""
    from regard.training.folder import LOG_FILE, Start, write_run
    from regard.training.run import finish, is_finished
    from regard.training.tensorboard import TensorBoard

    line, log = TrainingLine() if ranks.is_first else Mute(), RunLog(out / LOG_FILE)
    start = Start(out)
    with ExitStack() as stack:
        ranks.first("opening the folder", lambda: open_folder(stack, config, start, is_new=is_new))
        with ranks.watched(lambda: "before the first step"):
            trainer = prepared(config, out, line, log, ranks, sign)
        # only now, and not before: a setting that was refused is not kept
        ranks.first("writing run.toml", lambda: write_run(trainer.config, out))
        if ranks.first("looking for the model", lambda: is_finished(trainer)):
            start.keep()
            line.say(f"already finished: {out / 'model'}")
            line.say(next_commands(config, out / "model"))
            return
        line.say(begins(trainer))
        if ranks.is_first:
            board = stack.enter_context(closing(TensorBoard(out / "tensorboard", trainer.progress.step)))
            trainer.listeners.append(board)
        stop = stack.enter_context(stopping(line))
        how = trainer.fit(stop)
        if how == "stopped" and not trainer.progress.step:
            raise KeyboardInterrupt(stop.number)
        start.keep()
        if how == "stopped":
            line.say(f"saved. Go on with: regard resume {shlex.quote(str(out))}")
            raise click.exceptions.Exit(128 + stop.number)
        last = "averaging the last checkpoints" if config.train.average > 1 else "validating the last checkpoint"
        with waiting(last, is_heard=ranks.is_first):
            found = finish(trainer)
    if ranks.is_first:
        scores = {score.name: score.value for score in found.scores}
        log("model", path=str(found.folder), steps=found.steps, **scores)
        line.say(describe(found))
        line.say(next_commands(config, found.folder))
        click.echo(found.folder)


def open_folder(stack: ExitStack, config: "RunConfig", start: "Start", *, is_new: bool) -> None:
    """Locked until the run ends. torchrun starts the same command again when a rank has died: the run then goes on."""
    from regard.training.folder import RUN_FILE, clear, locked, read_run, write_run
    from regard.training.rounds import is_same

    out, job = start.folder, os.environ.get("TORCHELASTIC_RUN_ID", "")
    stack.enter_context(start.folders())
    stack.enter_context(locked(out, "" if job == "none" else job))
    stack.enter_context(start.files())
    has_begun = (out / "checkpoints").exists() and (out / RUN_FILE).exists()
    if is_new and not (job and has_begun and is_same(read_run(out / RUN_FILE), config)):
        clear(out)
        write_run(config, out)


def prepared(config: "RunConfig", out: Path, line: TrainingLine, log: RunLog, ranks: "Ranks", sign: Sign) -> "Trainer":
    """All that comes before the first step; of data that was reported and has not changed, nothing is said again."""
    from regard.training.folder import has_checkpoint
    from regard.training.run import assemble, data_report

    def tell_of_data() -> None:
        if not has_checkpoint(out):
            sign.now("looking at the data")
            found = data_report(config)
            line.say("\n".join([str(found), *notes(found, config)]))
            log("report", **found.to_dict())
            sign.now("preparing the data")

    ranks.first("looking at the data", tell_of_data, patient=True)
    trainer = assemble(config, out, [line, log] if ranks.is_first else [], ranks)
    sign.now("taking the first step")
    trainer.listeners.insert(0, lambda *_, **__: sign.end())  # before the line, which would be wiped with the sign
    return trainer


def notes(found: "Report", config: "RunConfig") -> list[str]:
    """What in the data makes scores worth less than they look."""
    said = []
    for name, shared in found.overlaps.items():
        if shared.rows:
            rows = f"{shared.rows:,} of the {shared.of:,} rows of {name}"
            said.append(f"note: {rows} stand in train too: scores will flatter")
    n_valid = found.sets["valid"].rows if "valid" in found.sets else 0
    if 0 < n_valid < FEW_VALID and config.data.pack != "files":
        hint = "raise data.hold_out, or give rows with --valid"
        said.append(f"note: only {n_valid} rows to validate by, which leaves much to chance;\n  {hint}")
    return said


def begins(trainer: "Trainer") -> str:
    """The model, who trains it, and where a run goes on."""
    from regard.inspection.summary import human

    step, of = trainer.progress.step, trainer.config.train.steps
    size = f"{type(trainer.model).__name__}: {human(trainer.model.n_parameters)} parameters"
    if trainer.ranks.size > 1:
        size += f" on {trainer.ranks.size} ranks ({trainer.config.train.parallel})"
    if step:
        return f"{size}; going on from step {step:,} of {of:,}"
    train = trainer.config.train
    if of < FEW_STEPS:
        size += f"\nnote: only {of} steps;\n  raise train.epochs or train.steps, or lower train.batch_tokens"
    if train.warmup >= of and train.schedule != "constant":
        size += f"\nnote: the warm-up takes {train.warmup:,} steps, longer than the run: lower train.warmup"
    return size


def leave(number: int, _frame: Any) -> None:
    raise KeyboardInterrupt(number)


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
def stopping(line: Line, doing: str = "finishing this step and saving") -> Iterator[Stop]:
    """The first Ctrl-C asks the loop to stop where it well can, the second leaves at once."""
    stop = Stop()

    def handle(number: int, _frame: Any) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()
        stop.number = number
        again = "press Ctrl-C again to leave at once" if number == signal.SIGINT else "a second signal ends it at once"
        line.say(f"{doing}; {again}")

    with handling(handle):
        yield stop
