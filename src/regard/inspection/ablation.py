"""Attention is not explanation: what changes at the end if a head, or a whole layer, keeps silent.

A silent head gives zeros to the output layer; a silent layer passes on what entered it. The change is the
Kullback-Leibler divergence of what the model chooses from, in nats, averaged over tokens; for models that end in bare
vectors it is 1 - cosine.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, kl_div

from regard.errors import UserError
from regard.inspection.capture import digits
from regard.inspection.ending import Ending, chosen_from, ending
from regard.inspection.figures.bars import bars
from regard.inspection.figures.drawing import Drawing
from regard.inspection.figures.heat import heat_map
from regard.inspection.figures.shown import Shown
from regard.inspection.reading import Kind, Reading
from regard.models.base import Output


@contextmanager
def silenced(reading: Reading, kind: Kind, layer: int, head: int | None = None) -> Iterator[None]:
    """While the block lasts, the head, or without one the whole layer, says nothing."""
    reading.check(kind, layer, head)
    if reading.is_recurrent:
        raise UserError("a recurrent model has no heads or blocks to silence", "give a Transformer")
    if head is None:
        hook = reading.stack(kind).blocks[layer].register_forward_hook(_pass_on)
    else:
        module = reading.module(kind, layer)
        mine = slice(head * module.d_head, (head + 1) * module.d_head)

        def empty(_module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
            heads = args[0].clone()  # (B, T, H · K)
            heads[..., mine] = 0.0
            return (heads,)

        hook = module.o.register_forward_pre_hook(empty)
    try:
        yield
    finally:
        hook.remove()


def _pass_on(_block: nn.Module, args: tuple[Any, ...], _output: Tensor) -> Tensor:
    entered: Tensor = args[0]
    return entered


@dataclass(frozen=True, eq=False)
class Ablation(Shown):
    what: str
    change: float
    measure: str
    tokens: tuple[str, ...]
    by_token: Tensor
    "(T) the change at each token; one number for a class."
    before: Ending | None
    after: Ending | None

    @property
    def title(self) -> str:
        return f"Without {self.what}: {self.measure} {self.change:.4f}"

    def drawing(self) -> Drawing:
        return bars(self.tokens, self.by_token.tolist(), title=self.title)

    def table(self) -> list[Sequence[object]]:
        return [["token", self.measure], *zip(self.tokens, digits(self.by_token), strict=True)]

    def numbers(self) -> NDArray[np.float32]:
        return self.by_token.numpy()

    def to_dict(self) -> dict[str, Any]:
        ends = {"before": self.before, "after": self.after}
        found = {"type": "ablation", "what": self.what, "measure": self.measure, "change": self.change}
        found |= {"tokens": list(self.tokens), "by_token": digits(self.by_token)}
        return found | {name: None if each is None else each.to_dict() for name, each in ends.items()}


@torch.no_grad()
def ablate(reading: Reading, kind: Kind, layer: int, head: int | None = None) -> Ablation:
    before = reading.run()
    with silenced(reading, kind, layer, head):
        after = reading.run()
    change, measure = _change(reading, before, after)
    side: Kind = "encoder" if reading.target is None else "decoder"
    names = (reading.written or reading.queries(side)).names if len(change) > 1 else ("the whole",)
    what = f"layer {layer} of the {'encoder' if kind == 'encoder' else 'decoder'}"
    what = what if head is None else f"head {head} of layer {layer} ({kind})"
    last = len(names) - 1
    ends = (ending(reading, out, side, last) for out in (before, after))
    return Ablation(what, float(change.mean()), measure, names, change, *ends)


@dataclass(frozen=True, eq=False)
class Ablations(Shown):
    """Every head silenced in turn."""

    kind: Kind
    changes: Tensor
    "(L, H)"
    measure: str

    def drawing(self) -> Drawing:
        layers, heads = self.changes.shape
        names = [f"layer {i}" for i in range(layers)], [f"head {i}" for i in range(heads)]
        title = f"Without each head ({self.kind}): {self.measure}"
        return heat_map(self.changes, *names, title=title, full=float(self.changes.max()))

    def table(self) -> list[Sequence[object]]:
        rows = [[layer, *numbers] for layer, numbers in enumerate(digits(self.changes))]
        return [["layer", *(f"head {i}" for i in range(self.changes.size(1)))], *rows]

    def numbers(self) -> NDArray[np.float32]:
        return self.changes.numpy()

    def to_dict(self) -> dict[str, Any]:
        return {"type": "ablations", "kind": self.kind, "measure": self.measure, "changes": digits(self.changes)}


@torch.no_grad()
def ablate_heads(reading: Reading, kind: Kind) -> Ablations:
    reading.check(kind)
    before, measure = reading.run(), ""
    changes = torch.zeros(reading.n_layers(kind), reading.n_heads(kind))
    for layer in range(len(changes)):
        for head in range(changes.size(1)):
            with silenced(reading, kind, layer, head):
                change, measure = _change(reading, before, reading.run())
            changes[layer, head] = change.mean()
    return Ablations(kind, changes, measure)


def _change(reading: Reading, before: Output, after: Output) -> tuple[Tensor, str]:
    """(T) or (1), and what it measures."""
    ours, theirs = (chosen_from(reading, out) for out in (before, after))
    if ours is None or theirs is None:
        return (1 - cosine_similarity(before.hidden[0].float(), after.hidden[0].float(), dim=-1)).cpu(), "1 - cosine"
    after_logs, before_logs = theirs.log_softmax(-1), ours.log_softmax(-1)
    change = kl_div(after_logs, before_logs, reduction="none", log_target=True).sum(-1)
    return change.cpu(), "divergence in nats"
