"""`regard verify`: every equality that is promised, checked on the user's own model.

A check varies one thing only, so that what is broken is called by its name and the other rows still pass. What it
finds may differ by roundings of float32; what must be bit-equal may not differ at all.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.errors import UserError
from regard.lab import exchange, inference, learning
from regard.lab.finding import DoesNotApply, Found
from regard.lab.subject import Subject
from regard.models.base import Model

CHECKS: dict[str, Callable[[Subject], Found]] = {
    "cached = uncached": inference.cached_is_uncached,
    "batch 1 = batch N": inference.batch_mates_do_not_matter,
    "padding left = right = none": inference.padding_does_not_matter,
    "causal": inference.later_tokens_do_not_reach_back,
    "beam 1 = greedy": inference.beam_of_one_is_greedy,
    "fused = readable": inference.fused_is_readable,
    "saved = loaded": exchange.saved_is_loaded,
    "accumulated = whole": learning.accumulated_is_whole,
    "interrupted = uninterrupted": learning.interrupted_is_uninterrupted,
    "ours = transformers": exchange.ours_is_transformers,
}
LEARNING = ("accumulated = whole", "interrupted = uninterrupted")
"Those that need gradients."


@dataclass(frozen=True)
class Row:
    name: str
    difference: float | None
    "The largest found; None where the equality does not apply."
    tolerance: float | None
    "The largest that passes."
    note: str = ""
    "Why it does not apply, what went wrong, or what was compared."
    seconds: float = 0.0

    @property
    def applies(self) -> bool:
        return self.difference is not None

    @property
    def passed(self) -> bool:
        return self.difference is None or (self.tolerance is not None and self.difference <= self.tolerance)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no word for a difference that is no number."""
        finite = self.difference if self.difference is not None and math.isfinite(self.difference) else None
        return asdict(self) | {"difference": finite, "applies": self.applies, "passed": self.passed}


def verify(model: Model, directory: Path | None = None) -> list[Row]:
    """All rows; `directory` is where the model was read from, for transformers to read the same."""
    subject = Subject(model, directory)
    return [examine(subject, name) for name in CHECKS]


def examine(subject: Subject, name: str) -> Row:
    """One row. A check that breaks is a promise that is not kept, and says why."""
    began = time.perf_counter()
    try:
        with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(name in LEARNING):
            found = CHECKS[name](subject)
    except DoesNotApply as reason:
        return Row(name, None, None, str(reason))
    except UserError as error:
        found = Found(math.inf, note=error.message.partition("\n")[0])
    except MemoryError:
        raise
    except Exception as error:
        found = Found(math.inf, note=f"{type(error).__name__}: {error}".partition("\n")[0])
    finally:
        subject.model.eval()
    return Row(name, found.difference, found.allowed, found.note, time.perf_counter() - began)
