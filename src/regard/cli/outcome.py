"""What a run has come to, and what to do with it."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.terminal import columns

if TYPE_CHECKING:
    from regard.training.config import RunConfig
    from regard.training.run import Finished


GIVEN = {"answer": '"…?" --text "…"', "fill": '"… [MASK] …"', "recognise": "….png", "caption": "….png"}
GIVEN["sentences"] = GIVEN["fill"]
"What the verb of a task is given, where it is not one text."
VERBS = {"sentences": "fill", "recognise": "classify"}
"Tasks -> their verbs, where these have other names."
GOES_ON = {"replaced": ("classify", "discriminator"), "spans": ("translate", "")}
"Tasks that only prepare for another -> that one, and the part of the model that is kept."


def describe(found: "Finished") -> str:
    """Which weights these are, how good, and on what that was found."""
    lines = [f"the model is {origin(found.steps)}"]
    for score in found.scores:
        lines += [str(score), f"  {score.signature}"]
    if found.scores:
        lines.append("on the validation set, which chose these weights, so the scores flatter a little")
    return "\n".join(lines)


def origin(steps: list[int]) -> str:
    if len(steps) == 1:
        return f"the checkpoint of step {steps[0]:,}"
    *first, last = (f"{step:,}" for step in steps)
    return f"the average of the checkpoints of steps {', '.join(first)} and {last}"


def next_commands(config: "RunConfig", model: Path) -> str:
    name = shlex.quote(str(model))
    verb = VERBS.get(config.task, config.task.partition("-")[0])
    given = GIVEN.get(config.task, '"…"')
    if config.task == "classify" and len(config.data.columns) == 3:
        given = '--pairs "…" "…"'
    lines = [f"try: regard {verb} --model {name} {given}"]
    if config.task in GOES_ON:  # what it was trained for is of no use by itself
        task, part = GOES_ON[config.task]
        lines = [f"try: regard train --task {task} --data … --init {shlex.quote(str(model / part))} --out …"]
    if config.data.test:
        options = [f"--data {shlex.quote(nearest(path))}" for path in config.data.test]
        options += [f"--column {shlex.quote(column)}" for column in config.data.columns]
        lines.append(command(f"     regard evaluate --model {name}", options))
    return "\n".join(lines)


def command(start: str, options: list[str]) -> str:
    """On one line where it fits, else on lines that can be pasted together."""
    whole = " ".join([start, *options])
    return whole if len(whole) <= columns() else " \\\n         ".join([start, *options])


def nearest(path: str) -> str:
    """From here, where that is inside."""
    short = os.path.relpath(path)
    return path if short.startswith(os.pardir) else short
