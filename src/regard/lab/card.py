"""The card of `regard bench`: how fast a model ran, and all that must be the same before two cards may be compared."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.config import build, require
from regard.errors import UserError
from regard.files import read_json_object


@dataclass(frozen=True, kw_only=True)
class Settings:
    task: str
    "The verb that the model is made for."
    precision: str
    threads: int
    batch: int
    length: int
    "Tokens of each text that is read."
    new: int
    "Tokens written to each; 0 where the model writes none."
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Computer:
    cpu: str
    instructions: str
    cores: int
    memory_bytes: int | None
    kernels: str = "unknown"
    "Regard's own, by their level, or PyTorch's."


@dataclass(frozen=True)
class Spread:
    """The median, and the ends of the middle half."""

    median: float
    low: float
    high: float

    def __post_init__(self) -> None:
        require(self.median > 0, f"a median of {self.median}", "expected more than 0: nothing takes no time")

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        ordered, quarter = sorted(values), len(values) // 4
        return cls(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter])


@dataclass(frozen=True, kw_only=True)
class Speed:
    tokens: int
    "Of one round, all texts together."
    seconds: tuple[float, ...]
    "Of every round."
    tokens_per_second: Spread

    @classmethod
    def of(cls, tokens: int, seconds: Sequence[float]) -> "Speed":
        return cls(tokens=tokens, seconds=tuple(seconds), tokens_per_second=Spread.of([tokens / s for s in seconds]))


@dataclass(frozen=True, kw_only=True)
class Card:
    card: Literal[1] = 1
    "Version of this format."
    model: str
    layout: str
    parameters: int
    settings: Settings
    read: Speed
    "The prompt, up to the first token; of a translator and an embedder the encoder alone."
    write: Speed | None
    "All tokens after the first."
    first_token_seconds: Spread | None
    peak_bytes: int | None
    "Most memory that the process ever held."
    above_import_bytes: int | None
    "What of it came after the libraries were imported."
    joules_per_token: float | None
    "Of all tokens read and written."
    energy: Literal["measured", "estimated"] = "measured"
    "By a meter, or from the time that cores were busy."
    computer: Computer
    versions: dict[str, str]
    date: str


def read_card(path: Path) -> Card:
    try:
        return build(Card, read_json_object(path))
    except UserError as error:
        raise UserError(f"{path} is no card: {error.message}", "`regard bench MODEL --out FILE` writes one") from error


def refuse_unlike(earlier: Card, settings: Settings, computer: Computer) -> None:
    """Only what ran under the same settings on the same kind of machine is compared; more rounds change nothing."""
    then, now = vars(earlier.settings) | vars(earlier.computer), vars(settings) | vars(computer)
    names = [name for name in now if name != "rounds" and then[name] != now[name]]
    if names:
        unlike = ", ".join(f"{name} was {then[name]} and is {now[name]}" for name in names)
        raise UserError(
            f"the cards cannot be compared: {unlike}", "measure both with the same options on the same machine"
        )


def compare(earlier: Card, now: Card) -> dict[str, float]:
    """How many times better: faster, sooner, smaller. Above 1 the later card is."""
    ratios = {"read": now.read.tokens_per_second.median / earlier.read.tokens_per_second.median}
    if now.write and earlier.write:
        ratios["write"] = now.write.tokens_per_second.median / earlier.write.tokens_per_second.median
    if now.first_token_seconds and earlier.first_token_seconds:
        ratios["first_token"] = earlier.first_token_seconds.median / now.first_token_seconds.median
    if now.peak_bytes and earlier.peak_bytes:
        ratios["memory"] = earlier.peak_bytes / now.peak_bytes
    return ratios
