"""What a probe found: numbers with their intervals, what they stand on, and what they do not say."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import __version__
from regard.config import to_dict
from regard.evaluation.score import scored, wilson
from regard.inspection.capture import identity
from regard.inspection.summary import summarise
from regard.lab.probe.sets import Rows
from regard.weights.store import home_of

BOOTSTRAP = 1_000
Heard = Callable[[int], None]


@dataclass(frozen=True)
class Measure:
    name: str
    value: float
    n: int
    "How many rows it stands on."
    low: float | None = None
    high: float | None = None
    "The interval of 95 %: Wilson's for shares, the bootstrap's for means."
    unit: str = "%"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one set of rows brought to light."""

    name: str
    source: str
    sha256: str
    done: int
    of: int
    measures: tuple[Measure, ...]
    says: str
    says_not: str
    examples: tuple[dict[str, Any], ...] = ()


class Part(ABC):
    """One set of rows with all that is asked about them."""

    name: str
    says: str
    says_not: str
    rows: Rows[Any]
    misfit = "too long"
    "What is wrong with a row that does not fit."

    @property
    def total(self) -> int:
        return len(self.rows.rows)

    def fits(self, row: Any) -> bool:
        """Whether the model can be given the row as it is."""
        return True

    @abstractmethod
    def outcomes(self) -> Iterator[Any]:
        """One after the other, so that whoever is tired of waiting keeps those that there are."""

    @abstractmethod
    def measures(self, outcomes: list[Any]) -> list[Measure]: ...

    def examples(self, outcomes: list[Any]) -> list[dict[str, Any]]:
        """All that a reader may want to see, the most telling first."""
        return []

    def found(self, outcomes: list[Any]) -> Finding:
        return Finding(
            name=self.name,
            source=self.rows.name,
            sha256=self.rows.sha256,
            done=len(outcomes),
            of=self.total,
            measures=tuple(self.measures(outcomes)),
            says=self.says,
            says_not=self.says_not,
            examples=tuple(self.examples(outcomes)),
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    probe: str
    model: dict[str, Any]
    seed: int
    complete: bool
    findings: tuple[Finding, ...]
    version: str = field(default=__version__)

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self)


def run(parts: Sequence[Part], heard: Heard) -> tuple[list[Finding], KeyboardInterrupt | None]:
    """All findings, or those that there were when someone pressed Ctrl-C, and that it was pressed."""
    findings, done = [], 0
    for part in parts:
        rows: list[Any] = []
        stop = None
        try:
            for row in part.outcomes():
                rows.append(row)
                heard(done + len(rows))
        except KeyboardInterrupt as error:
            stop = error
        done += len(rows)
        if rows:
            findings.append(part.found(rows))
        if stop is not None:
            return findings, stop
    return findings, None


def describe_model(model: Any, name: str, path: Path, precision: str) -> dict[str, Any]:
    """Enough to know the very weights again."""
    home, seen = home_of(path), hashlib.sha256()
    for file in sorted(home.glob("*.safetensors")) if home.is_dir() else [home]:
        with file.open("rb") as data:
            seen.update(hashlib.file_digest(data, "sha256").digest())
    sizes = {"n_parameters": summarise(model).n_parameters, "precision": precision, "weights_sha256": seen.hexdigest()}
    return {"name": name, **identity(model), **sizes}


# ---- intervals


def share(name: str, hits: float, n: int, note: str = "") -> Measure:
    return Measure(name, 100 * hits / n, n, *wilson(hits, n), note=note)


def mean(name: str, values: Sequence[float], *, unit: str, note: str = "", shown: Any = float) -> Measure:
    """With the interval of a bootstrap over the values; `shown` turns a mean into what is printed."""
    numbers: NDArray[np.float64] = np.array(values)
    (found,) = scored(
        [name], lambda rows: numbers[rows].mean(), len(numbers), signature="", bootstrap=BOOTSTRAP, scale=1.0
    )
    low, high = (None if edge is None else shown(edge) for edge in (found.low, found.high))
    return Measure(name, shown(found.value), len(numbers), low, high, unit, note)
