"""What a check finds: the largest difference between two ways to the same numbers, and how much is allowed."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

ROUNDING = 2e-5
"Allowed, as a share of the largest number: float32 keeps seven digits, and a deep model may lose two of them."


class DoesNotApply(Exception):
    """Why an equality means nothing for a model."""


@dataclass(frozen=True)
class Found:
    difference: float
    allowed: float = 0.0
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.difference <= self.allowed  # NaN is no pass

    @property
    def closeness(self) -> tuple[bool, float]:
        """How near to its limit, or how far beyond."""
        return not self.passed, self.difference / self.allowed if self.allowed else self.difference


def compare(pairs: Iterable[tuple[Tensor, Tensor]], *, exact: bool = False, scale: float | None = None) -> Found:
    """The worst pair. What is not `exact` may differ by a rounding of its own largest number, or of `scale`."""
    return max((_compare(*pair, 0.0 if exact else scale) for pair in pairs), key=lambda found: found.closeness)


def _compare(one: Tensor, other: Tensor, scale: float | None) -> Found:
    if one.shape != other.shape:  # they might still be subtracted, row from column
        return Found(math.inf, note=f"shapes {tuple(one.shape)} and {tuple(other.shape)}")
    if not one.numel():
        return Found(0.0)
    one, other = one.detach().float(), other.detach().float()
    difference = float((one - other).abs().max())
    if not math.isfinite(difference):
        return Found(difference, note="not all of the numbers are finite")
    return Found(difference, ROUNDING * float(other.abs().max()) if scale is None else ROUNDING * scale)
