"""`regard bench`: how fast a model reads and writes here, with all that the numbers depend on.

Texts are random ids and no end ends them: every round does the same work, whatever the model would have said.
Writing is greedy. Time that a round takes is cut in two where the first token comes.
"""

import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch

from regard import __version__
from regard.config import require
from regard.decoding.search import greedy
from regard.inspection.summary import human
from regard.lab.card import Card, Computer, Settings, Speed, Spread
from regard.lab.subject import Input, Subject
from regard.layers.native import native
from regard.machine import cpu_name, memory_bytes, memory_limit_bytes, peak_memory_bytes
from regard.tasks.load import VERBS, load
from regard.training.energy import Energy, Meter
from regard.weights.precision import chosen

MIN_NEW = 2
"The first token belongs to the reading."


@dataclass(frozen=True)
class Wanted:
    """What the caller may choose."""

    precision: str = "fp32"
    threads: int | None = None
    "As many as torch takes by itself, where absent."
    batch: int = 1
    length: int = 64
    new: int = 64
    rounds: int = 7


@dataclass(frozen=True)
class Round:
    """Seconds from the start to the end of the reading and to the first token, and from there to the last."""

    read: float
    first: float | None = None
    write: float | None = None


class Bench:
    """A model opened for measuring: its settings are known before the first round."""

    def __init__(self, source: Path, name: str, wanted: Wanted) -> None:
        self.name, self.before = name, peak_memory_bytes()
        precision = chosen(wanted.precision, source)
        task = load(source, precision=precision)
        self.summary, self.subject = task.summary(), Subject(task.model)
        require(not self.subject.sees, f"{name} reads pictures, not tokens", "give a model that reads or writes texts")
        self.settings = Settings(
            task=VERBS[type(task).__name__],
            precision=precision,
            threads=wanted.threads or torch.get_num_threads(),
            batch=wanted.batch,
            length=wanted.length,
            new=wanted.new if self.subject.writes else 0,
            rounds=wanted.rounds,
        )
        check_room(self.subject, self.settings)
        self.computer = computer()

    def run(self, heard: Callable[[int], None] = lambda done: None) -> Card:
        """`heard` is told after each round how many are done."""
        settings = self.settings
        given = self.subject.texts(settings.batch, settings.length)
        with at(settings.threads):
            one_round(self.subject, given, settings.new)  # warms up, and packs eight-bit weights
            meter, rounds = Meter(), []
            for number in range(settings.rounds):
                rounds.append(one_round(self.subject, given, settings.new))
                heard(number + 1)
            energy = meter.read()
        return self._card(rounds, energy)

    def _card(self, rounds: list[Round], energy: Energy) -> Card:
        settings, peak = self.settings, peak_memory_bytes()
        written = [each.write for each in rounds if each.write is not None]
        first = [each.first for each in rounds if each.first is not None]
        tokens = settings.batch * (settings.length + settings.new)
        return Card(
            model=self.name,
            layout=self.summary.layout,
            parameters=self.summary.n_parameters,
            settings=settings,
            read=Speed.of(settings.batch * settings.length, [each.read for each in rounds]),
            write=Speed.of(settings.batch * (settings.new - 1), written) if written else None,
            first_token_seconds=Spread.of(first) if first else None,
            peak_bytes=peak,
            above_import_bytes=None if peak is None or self.before is None else peak - self.before,
            joules_per_token=energy.joules / (tokens * settings.rounds),
            energy=energy.kind,
            computer=self.computer,
            versions={"regard": __version__, "torch": torch.__version__, "python": platform.python_version()},
            date=date.today().isoformat(),
        )


def check_room(subject: Subject, settings: Settings) -> None:
    longest = subject.model.config.max_len
    needed = settings.length + (0 if subject.paired else settings.new)
    require(needed <= longest, f"{needed} tokens do not fit: the model takes {longest}", "give less --length or --new")
    writing = f"{settings.new} new tokens for each text"
    require(not subject.writes or MIN_NEW <= settings.new <= longest, writing, f"expected {MIN_NEW} to {longest}")
    vectors = 4 * settings.batch * settings.length * subject.model.config.d_model  # of one layer: all need far more
    limit = memory_limit_bytes() or vectors
    room = f"{settings.batch:,} texts need more than {human(vectors, 'B')} of the {human(limit, 'B')} here"
    require(vectors <= limit, room, "give less --batch or --length")


@torch.inference_mode()
def one_round(subject: Subject, given: Input, new: int) -> Round:
    model, began = subject.model, time.perf_counter()
    if not subject.writes:
        getattr(model, "encoder", getattr(model, "decoder", model))(given.x)
        return Round(time.perf_counter() - began)
    read = None
    if subject.paired:
        memory = model.encode(given.src)
        read = time.perf_counter() - began
        state = model.new_state(memory, None, new)
        prompt = torch.full((len(given.x), 1), model.config.start_id)
    else:
        state, prompt = model.new_state(len(given.x), given.x.size(1) + new), given.x
    tokens = greedy(model.step, state, prompt, limit=new)
    next(tokens)
    first = time.perf_counter() - began
    deque(tokens, maxlen=0)
    return Round(read or first, first, time.perf_counter() - began - first)


@contextmanager
def at(threads: int) -> Iterator[None]:
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def computer() -> Computer:
    instructions = torch.backends.cpu.get_cpu_capability()
    cores = os.cpu_count() or 1
    kernels = "PyTorch's" if (library := native()) is None else f"regard's, {library.level}"
    return Computer(
        cpu=cpu_name(), instructions=instructions, cores=cores, memory_bytes=memory_bytes(), kernels=kernels
    )
