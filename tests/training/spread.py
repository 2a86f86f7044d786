"""Several ranks in a test: processes forked from a server that has imported torch already, so a rank costs no second.

What they do is defined here, since they find it by name.
"""

import contextlib
import io
import multiprocessing
import os
import resource
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from regard.cli.main import run
from regard.errors import UserError
from regard.training import distributed, loop, together
from regard.training import run as assembling
from regard.training.config import RunConfig
from regard.training.ranks import ALONE, Ranks
from regard.training.run import assemble, finish
from training.runs import tiny_run

SECONDS = 120
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["training.spread"])


@cache
def serve() -> None:
    """Start the server; Python 3.11 does not hand it the path on which it is to find this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent.parent), prepend=os.pathsep)
        ensure_running()


def spread(work: Callable[..., Any], size: int, *args: Any) -> list[Any]:
    """`work(rank, *args)` on `size` ranks at once; what each of them returned, or its error."""
    children, ends = start(work, size, *args)
    results = [_answer(end) for end in ends]
    for child in children:
        child.kill()
    return results


def _answer(end: Connection) -> Any:
    try:
        return end.recv() if end.poll(SECONDS) else TimeoutError("it hangs")
    except EOFError:
        return EOFError("it died")


def start(work: Callable[..., Any], size: int, *args: Any) -> tuple[list[Any], list[Connection]]:
    serve()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children, ends = [], []
    for rank in range(size):
        here, there = CONTEXT.Pipe()
        child = CONTEXT.Process(target=_rank, args=(there, work, rank, size, port, args), daemon=True)
        child.start()
        there.close()
        children.append(child)
        ends.append(here)
    return children, ends


def _rank(end: Connection, work: Callable[..., Any], rank: int, size: int, port: int, args: Any) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    loop.LOG_SECONDS, together.GRACE = 0.0, 1.0
    try:
        end.send(work(rank, *args))
    except BaseException as error:
        end.send(error if isinstance(error, UserError) else RuntimeError("".join(traceback.format_exception(error))))


def command(rank: int, *args: str) -> tuple[int, str, str]:
    """`regard ARGS`: its exit code, and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(args)
    return code, out.getvalue(), err.getvalue()


def command_with_a_pause(rank: int, who: int, *args: str) -> tuple[int, str, str]:
    """As `command`, but the rank `who` takes ten seconds to read the vocabulary."""
    honest = assembling.load_tokenizer
    assembling.load_tokenizer = lambda place: (time.sleep(10 * (rank == who)), honest(place))[1]  # type: ignore[attr-defined]
    return command(rank, *args)


def meet_at_a_taken_port(rank: int, data: Path) -> None:
    os.environ["WORLD_SIZE"] = "2"
    taken = socket.create_server(("", int(os.environ["MASTER_PORT"])))
    with taken, distributed.joined(tiny_run(data, parallel="ddp", timeout_minutes=0.02).train):
        raise AssertionError("nobody was there to meet")


@contextlib.contextmanager
def entered(config: RunConfig) -> Iterator[Ranks]:
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
    else:
        with distributed.joined(config.train) as ranks:
            yield ranks


def train(
    rank: int, data: Path, folder: Path, settings: dict[str, Any], trouble: str = "", stop_at: int = 0, where: int = 1
) -> dict[str, Any]:
    """A tiny run, with `trouble` on the rank `where` from step 3 on; what it told, and where it is."""
    config = tiny_run(data, **settings)
    if trouble == "another rate" and rank == where:
        config = replace(config, train=replace(config.train, lr=0.5))
    with entered(config) as ranks:
        stop, events = Event(), []
        trainer = assemble(config, folder, [lambda kind, **values: events.append((kind, values))], ranks)
        if trouble and rank == where:
            TROUBLES[trouble](trainer, stop)
        if stop_at:
            trainer.listeners.append(lambda kind, **v: stop.set() if kind == "step" and v["step"] >= stop_at else None)
        how = trainer.fit(stop)
        if how == "finished":
            finish(trainer)
        return {
            "how": how,
            "step": trainer.progress.step,
            "position": vars(trainer.progress.position),
            "losses": {v["step"]: v["loss"] for kind, v in events if kind == "step"},
            "bad": [v["step"] for kind, v in events if kind == "bad step"],
            "held": sum(ranks.local(parameter).numel() for parameter in trainer.model.parameters()),
        }


def at_step(trainer: loop.Trainer, number: int, act: Callable[[], None]) -> None:
    honest = trainer._batches

    def batches(rows: Any) -> Any:
        if trainer.progress.step + 1 >= number:
            act()
        return honest(rows)

    trainer._batches = batches  # type: ignore[method-assign]


def poison(trainer: loop.Trainer, _: Event) -> None:
    """What this rank's encoder says in the third step is not a number."""

    def spoilt(_module: Any, _args: Any, out: torch.Tensor) -> torch.Tensor:
        return out * torch.nan if trainer.trained.training and trainer.progress.step == 2 else out

    trainer.model.encoder.blocks[0].register_forward_hook(spoilt)  # type: ignore[union-attr, operator, index]


def full_disk(_trainer: loop.Trainer, _: Event) -> None:
    """No file of this rank may grow beyond 4 kB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))


def damage(trainer: loop.Trainer, _: Event) -> None:
    def damaged() -> None:
        raise UserError("row 7 is impossible")

    at_step(trainer, 3, damaged)


TROUBLES: dict[str, Callable[[loop.Trainer, Event], None]] = {
    "stop": lambda trainer, stop: at_step(trainer, 3, stop.set),
    "hang": lambda trainer, stop: at_step(trainer, 3, lambda: time.sleep(6)),
    "die": lambda trainer, stop: at_step(trainer, 3, lambda: os._exit(9)),
    "poison": poison,
    "damage": damage,
    "full disk": full_disk,
    "another rate": lambda trainer, stop: None,
}
