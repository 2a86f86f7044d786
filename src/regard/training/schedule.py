"""How large a step to take: warm-up, then one of four ways down."""

import math
from typing import Literal

ScheduleKind = Literal["inverse_sqrt", "cosine", "linear", "constant"]
ENDLESS: tuple[ScheduleKind, ...] = ("inverse_sqrt", "constant")
"These ask only for the step, not for the last one: a run may be made longer."


def rate(step: int, *, kind: ScheduleKind, peak: float, warmup: int, steps: int, low: float = 0.0) -> float:
    """The learning rate of step `step` (the first is 0) out of `steps`; a pure function, so a resumed run agrees.

    `cosine` and `linear` go down to `low`, which they would reach one step after the last: none is taken in vain.
    `inverse_sqrt` is section 5.3 of the paper: up linearly, then down with the
    square root of the step.
    """
    now = step + 1
    if now <= warmup:
        return peak * now / warmup
    if kind == "constant":
        return peak
    if kind == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / now)
    done = min((now - warmup) / (max(steps - warmup, 0) + 1), 1.0)
    left = 1 - done if kind == "linear" else (1 + math.cos(math.pi * done)) / 2
    return low + (peak - low) * left
