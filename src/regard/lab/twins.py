"""The kernels and their readable twins: for as long as one looks, every model goes through the one or the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from regard.layers import attention
from regard.layers.recurrent import Recurrence, gru_cell, lstm_cell, rnn_cell

CELLS: dict[str, Callable[..., Any]] = {"rnn": rnn_cell, "lstm": lstm_cell, "gru": gru_cell}
FAST = Recurrence.forward


def attend(*args: Any, **options: Any) -> Tensor:
    return attention.readable(*args, **options)[0]


def cell(self: Recurrence, x: Tensor, parts: tuple[Tensor, ...], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    new = CELLS[self.kind](x, *parts, *weights)
    return new if isinstance(new, tuple) else (new,)


def recur(
    self: Recurrence, x: Tensor, carry: Tensor | None = None, valid: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Token by token, layer by layer, from either end. Padding is packed away before the kernel, which has no twin."""
    if valid is not None:
        return FAST(self, x, carry, valid)
    carry = self.first(len(x)) if carry is None else carry
    starts, ends = carry.unflatten(-1, (self.directions, -1)), []  # (B, P, L, directions, width)
    for layer in range(carry.size(2)):
        outs, last = [], []
        for way in range(self.directions):
            parts, states = starts[:, :, layer, way].unbind(1), []
            for token in (x.flip(1) if way else x).unbind(1):
                parts = cell(self, token, parts, self.layers.all_weights[layer * self.directions + way])
                states.append(parts[0])
            out = torch.stack(states, dim=1)  # (B, S, width)
            outs.append(out.flip(1) if way else out)
            last.append(torch.stack(parts, dim=1))  # (B, P, width)
        x = torch.cat(outs, dim=-1)  # (B, S, D)
        ends.append(torch.cat(last, dim=-1))
    return x, torch.stack(ends, dim=2)  # (B, P, L, D)


TWINS: list[tuple[Any, str, Callable[..., Any]]] = [
    (attention, "fused", attend),
    (Recurrence, "_cell", cell),
    (Recurrence, "forward", recur),
]


@contextmanager
def kernels() -> Iterator[None]:
    """Attention's too for short texts, for which its twin is the faster one."""
    short, attention.SHORT = attention.SHORT, 0
    try:
        yield
    finally:
        attention.SHORT = short


@contextmanager
def readable() -> Iterator[None]:
    fast = [getattr(owner, name) for owner, name, _ in TWINS]
    try:
        for owner, name, twin in TWINS:
            setattr(owner, name, twin)
        yield
    finally:
        for (owner, name, _), kernel in zip(TWINS, fast, strict=True):
            setattr(owner, name, kernel)
