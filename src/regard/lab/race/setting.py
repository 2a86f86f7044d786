"""What a race is run with, and what a question may ask of it: the time that is left, and who listens."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from regard.config import require
from regard.lab.race.racers import Size
from regard.lab.race.sheet import Row, Sheet

MAX_LENGTH = 4096
LONGER = ": train for longer (--minutes, --steps)"


@dataclass
class Setting:
    seed: int = 0
    size: Size = field(default_factory=Size)
    longest: int = MAX_LENGTH
    steps: int | None = None
    "Of every training; the time decides where absent."
    plan: Mapping[str, int] = field(default_factory=dict)
    "Steps of each training by its name, from an earlier race that is to be repeated."
    told: Callable[[str], None] = lambda text: None
    done: dict[str, int] = field(default_factory=dict)
    "Steps that every training has had."
    until: float = float("inf")
    "When the question that is being asked should be answered, on the monotonic clock."

    @property
    def left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def steps_of(self, training: str) -> int | None:
        steps = self.plan.get(training)
        require(bool(steps) or not self.plan, f"the race to repeat has no steps of '{training}'", "race anew")
        return steps or self.steps


@dataclass(frozen=True)
class Question:
    name: str
    share: float
    "Of the time, beside the other questions."
    ask: Callable[[Setting], Iterator[Row]]
    "Measures; each row stands for itself, so that what is done is kept."
    answer: Callable[[list[Row], Setting], list[Sheet]]
