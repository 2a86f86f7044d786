"""Pictures of positions: the values of a model's own, how alike two places are, and what a step does.

Sinusoids have a property that the paper chose them for: PE(t + k) is a linear map of PE(t) that does not depend on t.
Here the map is built and tried. Rotary positions turn queries and keys by it; relative ones are a bias by distance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from regard.errors import UserError
from regard.inspection.capture import digits, packed
from regard.inspection.figures.curves import curves
from regard.inspection.figures.drawing import Drawing, below
from regard.inspection.figures.heat import heat_map
from regard.inspection.figures.shown import Shown
from regard.layers.encoder import Stack
from regard.layers.position import LearnedPosition, RelativeBias, RotaryPosition, SinusoidalPosition, sinusoids
from regard.models.vit import Vit

Side = Literal["encoder", "decoder"]


@dataclass(frozen=True, eq=False)
class Positions(Shown):
    kind: str
    values: Tensor
    "(n, D) vectors of the places; for rotary their cosines and sines, for relative the bias (H, distances)."
    distances: Tensor
    "(N) steps from query to key; to the right is positive."
    curve: Tensor
    "(N) or (H, N): how alike two places are at each distance, 1 for the same; for relative the bias itself."
    alike: Tensor | None = None
    "(n, n) cosine of every two places."
    step: int = 1
    map_error: float | None = None
    "Largest error of PE(t + step) = M PE(t) over all t; None where there is no such map."

    @property
    def title(self) -> str:
        return f"{self.kind} positions"

    def drawing(self) -> Drawing:
        places = [str(i) for i in range(len(self.values))]
        if self.kind == "relative":
            names = [f"head {i}" for i in places], [str(int(d)) for d in self.distances]
            full = float(self.values.abs().max())
            return heat_map(self.values, *names, title="relative positions: bias by distance and head", full=full)
        full = float(self.values.abs().max())
        width = [str(i) for i in range(self.values.size(1))]
        parts = [heat_map(self.values, places, width, title=f"{self.title}: place down, component across", full=full)]
        if self.alike is not None:
            parts.append(heat_map(self.alike, places, places, title="cosine of every two places"))
        xs, ys = self.distances.tolist(), self.curve.tolist()
        parts.append(curves(xs, {"alike": ys}, title="how alike two places are, by their distance", axis="steps apart"))
        return below(parts, self.title)

    def table(self) -> list[Sequence[object]]:
        side, across = ("head", "d=") if self.kind == "relative" else ("position", "component ")
        marks = self.distances.tolist() if self.kind == "relative" else list(range(self.values.size(1)))
        rows = [[i, *numbers] for i, numbers in enumerate(digits(self.values))]
        return [[side, *(f"{across}{int(mark)}" for mark in marks)], *rows]

    def numbers(self) -> NDArray[np.float32]:
        return self.values.numpy()

    def to_dict(self) -> dict[str, Any]:
        alike = {} if self.alike is None else {"alike": packed(self.alike)}
        found = {"values": packed(self.values), "distances": self.distances.tolist(), "curve": digits(self.curve)}
        return {
            "type": "positions",
            "kind": self.kind,
            **found,
            **alike,
            "step": self.step,
            "map_error": self.map_error,
        }


@torch.no_grad()
def positions_of_model(model: Any, n: int = 64, *, side: Side | None = None, step: int = 1) -> Positions:
    """Of the first `n` places, or of as many as were learned."""
    if isinstance(model, Vit):
        return _absolute("learned", model.embed.position[0].detach().float().cpu(), step, None)
    side = side or ("encoder" if isinstance(getattr(model, "encoder", None), Stack) else "decoder")
    stack = getattr(model, side, None)
    if not isinstance(stack, Stack):
        raise UserError(f"this model has no {side} with positions", "recurrent models know the order by reading in it")
    if stack.rotary is not None:
        return _rotary(stack.rotary, n, step)
    if stack.relative is not None:
        return _relative(stack.relative, n)
    position = getattr(stack.embed, "position", None)
    if isinstance(position, SinusoidalPosition):
        return sinusoidal(n, position.width, step=step, interleaved=position.interleaved)
    if isinstance(position, LearnedPosition):
        n = min(n, position.num_embeddings - position.offset)
        return _absolute("learned", position(torch.arange(n, device=model.device)).float().cpu(), step, None)
    raise UserError("this model knows no positions", "its outputs only permute with its inputs")


def sinusoidal(n: int, width: int, *, step: int = 1, interleaved: bool = True) -> Positions:
    """The table of section 3.5 of the paper, for any width."""
    values = sinusoids(n + step, width, interleaved=interleaved)
    turned = values[:n].double() @ shift_map(width, step, interleaved=interleaved).T
    error = float((turned - values[step:].double()).abs().max())
    return _absolute("sinusoidal", values[:n], step, error)


def shift_map(width: int, step: int, *, interleaved: bool = True) -> Tensor:
    """(D, D), M with PE(t + step) = M PE(t) for every t: each pair of sine and cosine is turned by its own angle."""
    if width % 2:
        raise UserError(f"{width} components do not pair up", "expected an even width")
    frequencies = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    pairs = torch.arange(width // 2)
    sine, cosine = (2 * pairs, 2 * pairs + 1) if interleaved else (pairs, pairs + width // 2)
    found = torch.zeros(width, width, dtype=torch.float64)
    angle = step * frequencies
    found[sine, sine], found[sine, cosine] = angle.cos(), angle.sin()  # sin(a + b) = sin a cos b + cos a sin b
    found[cosine, cosine], found[cosine, sine] = angle.cos(), -angle.sin()
    return found


def _absolute(kind: str, values: Tensor, step: int, error: float | None) -> Positions:
    unit = normalize(values.double(), dim=-1)
    alike = unit @ unit.T  # (n, n)
    n = len(values)
    curve = torch.stack([alike.diagonal(d).mean() for d in range(n)])
    return Positions(kind, values, torch.arange(n), curve.float(), alike.float(), step, error)


def _rotary(rotary: RotaryPosition, n: int, step: int) -> Positions:
    """A vector with the same weight in all pairs, against itself turned by a distance."""
    frequencies = rotary.frequencies(torch.device("cpu")).double()
    angles = torch.arange(n).double()[:, None] * frequencies  # (n, K/2)
    values = torch.cat([angles.cos(), angles.sin()], dim=-1)
    curve = angles.cos().mean(-1)  # alike at each distance: nothing but the distance matters
    distances = torch.arange(n)
    alike = curve[(distances[:, None] - distances).abs()]
    moved = (distances + step).double()[:, None] * frequencies
    cos, sin = (step * frequencies).cos(), (step * frequencies).sin()
    error = (angles.cos() * cos - angles.sin() * sin - moved.cos()).abs().max()
    return Positions("rotary", values.float(), distances, curve.float(), alike.float(), step, float(error))


def _relative(relative: RelativeBias, n: int) -> Positions:
    start = 1 - n
    distances = torch.arange(start, n if relative.bidirectional else 1)
    bias = relative.table(relative.bucket(distances.to(relative.table.weight.device))).T.float().cpu()  # (H, N)
    return Positions("relative", bias, distances, bias)
