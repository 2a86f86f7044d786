"""The models that a server offers, by name: a request never names a path.

Each has a thread of its own (engine.py). At the start only its outline is read, without weights, to know what it can
do; it is opened when it is first asked for something.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import UserError
from regard.inspection.capture import identity
from regard.inspection.reading import Reading, Tokens
from regard.inspection.summary import summarise
from regard.studio.engine import Engine, Job
from regard.studio.problem import Problem, problem_of
from regard.tasks.generator import Generator
from regard.tasks.load import VERBS, tasks_of

Opener = Callable[[str], dict[type, Callable[[], Any]]]
"From a device to the tasks; 'meta' asks for the outline."


Suits = Callable[[dict[str, Any]], bool]
"Whether a model with this outline is the right one among those that can."


class Source(NamedTuple):
    name: str
    path: str | Path
    about: str = ""
    precision: str = "fp32"

    def open(self, device: str) -> dict[type, Callable[[], Any]]:
        return tasks_of(self.path, self.precision, device)  # type: ignore[arg-type]  # one of its own names


class Entry:
    """A model on offer; what is not about waiting happens on its own thread."""

    def __init__(self, name: str, opener: Opener, about: str = "", home: Path | None = None) -> None:
        self.name, self.about, self.home = name, about, home
        self.state, self.error = "asleep", ""
        self.outline: Future[dict[str, Any]] = Future()
        self.engine = Engine(name)
        self.cache: dict[Any, Any] = {}
        "For looks inside, of this thread alone."
        self._open, self._tasks = opener, dict[str, Any]()

    def peek(self, _job: Job) -> None:
        """The outline; meanwhile nobody can ask for anything, for nobody knows what there is."""
        try:
            self.outline.set_result(_outline(self.name, self._open("meta")))
        except BaseException as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self.state, self.error = "failed", problem_of(error).message
        if not self.outline.done():
            self.outline.set_exception(error if isinstance(error, UserError) else UserError(self.error))

    def task(self, verb: str | None = None) -> Any:
        """Opened if it is not yet; without a verb what it is made for."""
        if not self._tasks:
            self._load()
        if verb is None:
            return next(iter(self._tasks.values()))
        return self._tasks[verb]

    def _load(self) -> None:
        self.state = "loading"
        try:
            makers = self._open("cpu")
            if not self.outline.done():
                self.outline.set_result(_outline(self.name, makers))
            found = {_verb(kind): make() for kind, make in makers.items()}
            if isinstance(writer := found.get("generate"), Generator):
                self.engine.scheduler = writer.scheduler(max_waiting=self.engine.max_waiting)
            self._tasks, self.state = found, "ready"
        except BaseException as error:
            self._failed(error)
            raise

    def made_for(self, what: str) -> Any:
        """The task, where it is to read `texts` or to see `pictures`, as is asked."""
        task = self.task()
        kind = "pictures" if hasattr(task, "view") else "texts"
        if what != kind:
            raise UserError(f"{self.name} is made for {kind}, not for {what}", f"give a model for {what}")
        return task

    @property
    def verbs(self) -> list[str]:
        done = self.outline.done() and self.outline.exception() is None
        return self.outline.result()["tasks"] if done else []

    def to_dict(self) -> dict[str, Any]:
        known = self.outline.result() if self.verbs else {}
        queue = {"waiting": self.engine.n_waiting, "running": self.engine.n_running}
        row = {"name": self.name, "state": self.state, "error": self.error or None, "about": self.about}
        return {**row, "tasks": [], "kinds": [], **known, "queue": queue}


def _verb(kind: type) -> str:
    return {"Recogniser": "recognise"}.get(kind.__name__, VERBS[kind.__name__])


def _outline(name: str, makers: dict[type, Callable[[], Any]]) -> dict[str, Any]:
    task: Any = next(iter(makers.values()))()
    model, config = task.model, task.model.config
    nothing = Tokens((), (), ())
    verbs = [_verb(kind) for kind in makers]
    languages = re.search(r"(?:^|[-_.])([a-z]{2})-([a-z]{2})$", name) if "translate" in verbs else None
    facts, kinds = identity(model), list(Reading(model, source=nothing, target=nothing).kinds)
    sees = hasattr(task, "view")
    image = {"size": list(config.image_size), "channels": config.channels, "kinds": kinds} if sees else None
    return {
        "tasks": verbs,
        "kinds": [] if sees else kinds,
        "image": image,
        "layout": facts["layout"],
        "family": facts["family"],
        "n_parameters": summarise(model).n_parameters,
        "max_len": getattr(config, "max_len", None),
        "sizes": facts["sizes"],
        "labels": list(config.labels)[:200],
        "chat": isinstance(task, Generator) and task.tokenizer.chat_template is not None,
        "source": languages[1] if languages else None,
        "target": languages[2] if languages else None,
    }


class Table:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.is_draining = False

    async def pick(self, name: str | None, verb: str | None, suits: Suits = lambda outline: True) -> Entry:
        """The named one if it can do this; else of those that can the first that `suits` and is made for it.

        An encoder of any kind gives vectors, but what was trained for something else gives poor ones.
        """
        if name is not None and name not in self.entries:
            hint = f"there is {', '.join(self.entries) or 'none'}"
            raise Problem(404, f"there is no model '{name[:80]}'", hint=hint, param="model", code="model_not_found")
        able: list[tuple[bool, bool, Entry]] = []
        for entry in [self.entries[name]] if name is not None else self.entries.values():
            verbs = await self._verbs(entry, must=name is not None)
            if verbs and (verb is None or verb in verbs):
                strange, second = not suits(entry.outline.result()), verb not in (None, verbs[0])
                if not strange and not second:
                    return entry
                able.append((strange, second, entry))
            elif name is not None:
                hint = f"it can {', '.join(verbs)}"
                raise Problem(400, f"{name} cannot {verb}", hint=hint, param="model", code="wrong_task")
        if able:
            return min(able, key=lambda each: each[:2])[2]
        hint = "start the studio with a model for it: regard studio MODEL"
        raise Problem(404, f"no model here can {verb or 'do anything'}", hint=hint, param="model", code="no_model")

    async def _verbs(self, entry: Entry, *, must: bool) -> list[str]:
        try:
            await asyncio.wait_for(asyncio.wrap_future(entry.outline), 120)
        except (UserError, TimeoutError) as error:
            if must:
                hint = getattr(error, "hint", "")
                raise Problem(
                    503, f"{entry.name} cannot be opened: {entry.error or 'it takes too long'}", hint=hint
                ) from error
        return entry.verbs

    def start(self) -> None:
        """Open the first model, which will be wanted soon; then read the outlines of the others on their threads."""
        if not self.entries:
            return
        first, *others = self.entries.values()
        jobs = [(entry, Job(entry.peek)) for entry in others]

        def begin(job: Job) -> None:
            try:
                first.task()
            finally:
                for entry, peek in jobs:
                    entry.engine.submit(peek)

        first.engine.submit(Job(begin))

    def close(self) -> None:
        for entry in self.entries.values():
            entry.engine.close()

    @property
    def is_ready(self) -> bool:
        """Whether what would be asked for by default can be."""
        first = next(iter(self.entries.values()), None)
        return not self.is_draining and (first is None or first.state == "ready")
