"""`regard ladder`: from a plain RNN to a Transformer with all its helpers, one change at a time, on the same pairs.

Every rung that trains is a run of the ordinary trainer in a folder of its own: `DIR/3-attention` holds a run.toml that
differs from the one before by what the table shows, and can be resumed by itself. All get the same time: the seconds
of a step are measured first, and the number of steps, which the schedule needs to know, follows from them. The last
two rungs train nothing; they use the run before them.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

from regard.config import read_toml, require, to_dict
from regard.data.corpus import Part, read_rows
from regard.errors import USAGE, UserError
from regard.files import read_json_object, replacing, write_json
from regard.lab.judging import Asked, judge
from regard.runlog import RunLog
from regard.tasks.load import load
from regard.training.checkpoint import fingerprint
from regard.training.config import RunConfig
from regard.training.decided import differences
from regard.training.folder import LOG_FILE, RUN_FILE, locked, read_run, run_of, write_run
from regard.training.loop import Listener, Trainer
from regard.training.model import check_model
from regard.training.run import assemble, finish, is_finished
from regard.training.sources import Sources

STATE_FILE = "ladder.json"
SETS = ("train", "valid", "test")
PACE_SECONDS, LEAST_REPORTS, MANY_STEPS = 20.0, 4, 10**9
"How long the speed of a rung is measured, at most a tenth of its minutes, and by how many reports of the trainer."
VALIDATIONS = 10
BEAM, BOOTSTRAP = 4, 1000
HELD, MOST_HELD = 0.1, 1000
"Of pairs that come without valid and test sets, the share, and the most rows, that each of these gets."

SMALL_TRANSFORMER = (
    'model={preset="transformer-small", layout="pegasus", norm_order="pre", final_norm=true, '
    "d_model=256, n_layers=3, n_decoder_layers=3, d_ff=512, dropout=0.25}"
)


@dataclass(frozen=True)
class Rung:
    name: str
    title: str
    changes: tuple[str, ...] = ()
    "As `--set` has them."
    trains: bool = True
    averaged: bool = False
    "Whether the weights are those of the run's last checkpoints together, and not of its best one."
    beam: int = 1


RUNGS = (
    Rung("rnn", "vanilla RNN", (
        "model={preset='recurrent-rnn', d_model=256, dropout=0.25}", "text.kind=word", "text.vocab_size=6000",
        "train.batch_tokens=2500", "train.lr=0.001", "train.schedule=cosine", "train.label_smoothing=0.0",
        "train.average=1", "valid.sentences=200",
    )),
    Rung("lstm", "LSTM", ("model.preset=recurrent-lstm",)),
    Rung("attention", "+ attention", ("model.preset=recurrent-lstm-dot",)),
    Rung("transformer", "Transformer", (SMALL_TRANSFORMER,)),
    Rung("bpe", "+ byte pairs", ("text.kind=bpe",)),
    Rung("smoothing", "+ label smoothing", ("train.label_smoothing=0.1", "train.average=5")),
    Rung("averaging", "+ averaging", trains=False, averaged=True),
    Rung("beam", f"+ beam of {BEAM}", trains=False, averaged=True, beam=BEAM),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user decides; a ladder goes on only with the same."""

    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    minutes: float = 10.0
    "Of training, for every rung that trains."
    steps: int | None = None
    "Instead of minutes."
    seed: int = 1
    changes: tuple[str, ...] = ()
    "Laid over every rung."


Done = dict[str, Any]
Tell = Callable[[str], None]


def multi30k() -> Wanted:
    data = read_toml(Path(__file__).parent.parent / "recipes" / "multi30k-de-en.toml")["data"]
    train, valid, test = (tuple(str(Path(path).absolute()) for path in data[name]) for name in SETS)
    return Wanted(train=train, valid=valid, test=test)


def _said(wanted: Any) -> Any:
    """Minutes decide nothing where steps are given."""
    unused = ("minutes",) if isinstance(wanted, dict) and wanted.get("steps") else ("steps",)
    return {key: value for key, value in wanted.items() if key not in unused} if isinstance(wanted, dict) else wanted


def _named(value: Any) -> str:
    return "not given" if value is None else repr(value)


class Ladder:
    """In `folder`, where an earlier one of the same wishes is taken up."""

    def __init__(self, wanted: Wanted, folder: Path) -> None:
        self.wanted, self.folder = wanted, folder
        self.files = {path: fingerprint(Path(path)) for name in SETS for path in getattr(wanted, name)}
        self.done: list[Done] = []
        before = folder / STATE_FILE
        if before.is_file():
            state = read_json_object(before)
            told = [f"{path} was {_named(old)} and is {_named(new)}"
                    for path, old, new in differences(*map(_said, (state.get("wanted"), to_dict(wanted))))]  # fmt: skip
            if told:
                hint = "choose another folder with --out, or ask for the same again"
                raise UserError(f"{folder} holds another ladder: {', '.join(told)}", hint, exit_code=USAGE)
            changed = [path for path, mark in state.get("files", {}).items() if self.files.get(path) != mark]
            if changed:
                hint = "rungs of one ladder learn from the same: bring it back, or choose another folder with --out"
                raise UserError(f"{', '.join(changed)} has changed since {folder} was begun", hint)
            self.done = list(state["rungs"])

    def climb(self, listeners: Sequence[Listener], tell: Tell, stop: Event) -> Iterator[Done]:
        """Each rung as it is reached, those of earlier sittings first; ends early where `stop` is set."""
        yield from self.done
        base = self._base(tell)
        self._keep()
        for number, rung in enumerate(RUNGS, 1):
            config = self._config(base, number)
            if number <= len(self.done):
                continue
            if stop.is_set():
                return
            tell(f"rung {number} of {len(RUNGS)}: {rung.title}")
            run = self.folder_of(number)
            if rung.trains and not (run / RUN_FILE).is_file():
                with locked(run):
                    write_run(self._timed(config, run, tell), run)
            trained = train(read_run(run / RUN_FILE), run, listeners, stop) if rung.trains else None
            if rung.trains and trained is None:
                return
            tell(f"scoring {rung.title}")
            self.done.append(self._scored(number, config, trained))
            self._keep()
            yield self.done[-1]

    def folder_of(self, number: int) -> Path:
        """A rung's own, or that of the last one that trained."""
        while not RUNGS[number - 1].trains:
            number -= 1
        return self.folder / f"{number}-{RUNGS[number - 1].name}"

    def _keep(self) -> None:
        state = {"ladder": 1, "wanted": to_dict(self.wanted), "files": self.files, "rungs": self.done}
        write_json(self.folder / STATE_FILE, state)

    def _base(self, tell: Tell) -> dict[str, Any]:
        """The data of all rungs."""
        wanted = self.wanted
        sets = {name: list(getattr(wanted, name)) for name in SETS}
        data: dict[str, Any] = {**sets, "columns": list(wanted.columns), "max_len": 100}
        if not wanted.valid or not wanted.test:
            tell("keeping pairs for validation and test")
            data |= part(self.folder.absolute() / "pairs", sets["train"], wanted.columns)
        return {"task": "translate", "seed": wanted.seed, "data": data}

    def _config(self, base: dict[str, Any], number: int) -> RunConfig:
        changes = [change for rung in RUNGS[:number] for change in rung.changes]
        return run_of(base, [*changes, *self.wanted.changes])

    def _timed(self, config: RunConfig, run: Path, tell: Tell) -> RunConfig:
        """With as many steps as fit into the minutes, and a schedule that ends with them."""
        steps = self.wanted.steps
        if steps is None:
            tell("measuring the seconds of a step")
            seconds = pace(config, run, min(PACE_SECONDS, 6 * self.wanted.minutes))
            steps = max(1, round(60 * self.wanted.minutes / seconds))
            tell(f"a step takes {seconds:.3f} s, so {self.wanted.minutes:g} minutes are {steps:,} steps")
        train = replace(config.train, steps=steps, warmup=min(400, max(1, steps // 10)))
        return replace(config, train=train, valid=replace(config.valid, every=max(1, steps // VALIDATIONS)))

    def _scored(self, number: int, config: RunConfig, trained: Trainer | None) -> Done:
        rung, run = RUNGS[number - 1], self.folder_of(number)
        task = load(run / ("model" if rung.averaged else "best"))
        files = [Path(path) for path in config.data.test]
        asked = Asked(files, config.data.columns or None, bootstrap=BOOTSTRAP, beam=rung.beam)
        score = judge(task, asked, lambda n: None).scores[0]
        done: Done = {"rung": rung.name, "title": rung.title, "changed": self._changed(number), "run": run.name}
        done |= {"bleu": score.value, "low": score.low, "high": score.high, "signature": score.signature}
        done["parameters"] = task.summary().n_parameters
        if trained is not None:
            energy, progress = trained.energy(), trained.progress
            done |= {"steps": progress.step, "minutes": progress.seconds / 60}
            done |= {"joules": progress.joules, "energy": energy.kind, "how": energy.how}
        return done

    def _changed(self, number: int) -> list[str]:
        """What differs from the rung before, as the two files say it."""
        rung = RUNGS[number - 1]
        if number == 1:
            return ["the start"]
        if not rung.trains:
            return ["the mean of the last checkpoints" if rung.beam == 1 else f"beam = {rung.beam}"]
        base: dict[str, Any] = {"task": "translate", "data": {"train": ["x"]}}
        before, now = (to_dict(self._config(base, each)) for each in (number - 1, number))
        return [
            f"{path} = {json.dumps(new)}" if new is not None else f"no {path}"
            for path, _, new in differences(before, now)
        ]


def part(folder: Path, train: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    """The pairs of these files in three files of our own; equal sources never part."""
    paths, names = tuple(map(Path, train)), SETS
    count = sum(1 for _ in read_rows(list(paths), columns=columns or None))
    share = min(HELD, MOST_HELD / max(count, 1))
    edges = {"valid": (0.0, share), "test": (share, 2 * share), "train": (2 * share, 1.0)}
    written = dict.fromkeys(names, 0)
    for name, ends in edges.items():
        with replacing(folder / f"{name}.jsonl") as file:
            for row in read_rows(Part(paths, *ends), columns=columns or None):
                require(len(row) == 2, f"a row has {len(row)} columns", "name the two languages' with --column")
                file.write((json.dumps({"source": row[0], "target": row[1]}) + "\n").encode())
                written[name] += 1
    few = [f"{name} {n}" for name, n in written.items() if n < 2]
    require(not few, f"{count} pairs are too few: {', '.join(few)}", "give more pairs, or --valid and --test")
    return {name: [str(folder / f"{name}.jsonl")] for name in names} | {"columns": ["source", "target"]}


class Watch:
    """Listens to a run and stops it when enough reports say how fast it goes."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.stop, self.seen = seconds, Event(), list[tuple[float, int]]()

    def __call__(self, kind: str, **values: Any) -> None:
        if kind == "step":
            self.seen.append((time.monotonic(), values["step"]))
            if len(self.seen) >= LEAST_REPORTS and self.seen[-1][0] - self.seen[0][0] >= self.seconds:
                self.stop.set()

    def pace(self) -> float:
        """Seconds of a step, of the quicker reports: what other programs take away now they may leave later."""
        gaps = sorted((t - before) / (n - first) for (before, first), (t, n) in pairwise(self.seen))
        return gaps[len(gaps) // 4]


def pace(config: RunConfig, run: Path, seconds: float) -> float:
    """Seconds of a training step, by steps of the very run; it keeps the vocabulary and the rows made for them."""
    trial, watch = run / "pace", Watch(seconds)
    shutil.rmtree(trial, ignore_errors=True)
    endless = replace(config.train, steps=MANY_STEPS, schedule="constant", save_minutes=1e6)
    data = replace(config.data, valid=(), test=())
    assemble(replace(config, data=data, train=endless), trial, [watch]).fit(watch.stop)
    for made in ("tokenizer", "data"):
        shutil.rmtree(run / made, ignore_errors=True)
        (trial / made).rename(run / made)
    shutil.rmtree(trial)
    return watch.pace()


def train(config: RunConfig, run: Path, listeners: Sequence[Listener], stop: Event) -> Trainer | None:
    """The run to its end, from where it stands; None where it was stopped before."""
    with locked(run):
        trainer = assemble(config, run, [*listeners, RunLog(run / LOG_FILE)])
        if not is_finished(trainer):
            if trainer.fit(stop) == "stopped":
                return None
            finish(trainer)
        return trainer


def check(wanted: Wanted) -> None:
    """What can be wrong with the wishes, before any work."""
    files = {name: list(getattr(wanted, name)) for name in SETS}
    base = {"data": {**files, "columns": list(wanted.columns)}}
    for number in range(1, len(RUNGS) + 1):
        changes = [change for rung in RUNGS[:number] for change in rung.changes]
        config = run_of(base, [*changes, *wanted.changes])
        require(config.task == "translate", f"--set task={config.task}", "a ladder translates: leave it out")
        check_model(config, "")
    Sources(run_of(base, ())).check(("train", "valid", "test"))
