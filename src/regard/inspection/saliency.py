"""Which tokens made a classifier decide: gradient x input, integrated gradients, occlusion.

All three ask how the log-probability of a label changes between the text as it is and a base that says nothing: every
ordinary token is padding (or a start, where there is no padding), every pixel zero; special tokens stay. Vectors are
those that enter the first block. Integrated gradients (Sundararajan et al. 2017) walk from the base to the text, so
their sum is the whole change: how far it is off is shown as `error`. A base of zero vectors would not do: a norm jumps
there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.config import require
from regard.errors import UserError
from regard.inspection.capture import digits
from regard.inspection.figures.bars import bars
from regard.inspection.figures.drawing import Drawing
from regard.inspection.figures.shown import Shown
from regard.inspection.reading import Reading, Tokens, watching
from regard.models.bert import Bert
from regard.models.gpt import Gpt
from regard.models.recurrent import RecurrentClassifier
from regard.models.vit import Vit

Method = Literal["gradient", "integrated", "occlusion"]
STEPS, AT_ONCE = 64, 16


@dataclass(frozen=True, eq=False)
class Saliency(Shown):
    method: Method
    label: str
    probability: float
    base: float
    "Probability of the label for the base."
    tokens: tuple[str, ...]
    values: Tensor
    "(T) above zero speaks for the label, in nats."
    error: float | None
    "Integrated gradients: |sum of the values - change of the log-probability|."

    @property
    def title(self) -> str:
        checked = "" if self.error is None else f", off by {self.error:.4f}"
        return f"Why “{self.label}” ({self.probability:.2f}): {self.method}{checked}"

    def drawing(self) -> Drawing:
        return bars(self.tokens, self.values.tolist(), title=self.title)

    def table(self) -> list[Sequence[object]]:
        return [["token", self.method], *zip(self.tokens, digits(self.values), strict=True)]

    def numbers(self) -> NDArray[np.float32]:
        return self.values.numpy()

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "saliency",
            "method": self.method,
            "label": self.label,
            "probability": self.probability,
        }
        found |= {"base": self.base, "tokens": list(self.tokens), "values": digits(self.values)}
        return found | {"error": self.error}


def saliency(
    reading: Reading, label: str | None = None, *, method: Method = "integrated", steps: int = STEPS
) -> Saliency:
    """Of the named label, or of the likeliest. More `steps` make integrated gradients more exact."""
    require(steps >= 1, f"{steps} steps", "expected at least 1")
    labels, module = reading.model.config.labels, _embedding(reading)
    with watching({"embed": module}) as calls, torch.no_grad():
        found = reading.run().logits[0].log_softmax(-1)
        _silent(reading).run()
    x, base = (call.output.detach() for call in calls["embed"])  # (1, T, D)
    if label is not None and label not in labels:
        raise UserError(f"the model has no label '{label[:80]}'", f"its labels are {', '.join(labels)[:400]}")
    chosen = int(found.argmax()) if label is None else labels.index(label)
    tokens = reading.source or reading.target  # latents of a Perceiver are no input
    assert tokens is not None
    score = _Score(reading, module, chosen)
    with torch.no_grad():
        ends = score(torch.cat([x, base]))
    error = None
    if method == "occlusion":
        values = _occlusion(score, x, base, ends[0])
    elif method == "gradient":
        values = (score.gradient(x) * (x - base)).sum(-1)[0]
    else:
        values = _integrated(score, x, base, steps)
        error = float((values.sum() - (ends[0] - ends[1])).abs())
    whole, nothing = ends.exp().tolist()
    return Saliency(method, labels[chosen], whole, nothing, tokens.names, values.float().cpu(), error)


def _silent(reading: Reading) -> Reading:
    """The base."""
    if reading.pixels is not None:
        return replace(reading, pixels=torch.zeros_like(reading.pixels))
    config = reading.model.config
    nothing = next(id for id in (config.pad_id, config.bos_id, *config.eos_ids, 0) if id is not None)
    side = "source" if reading.target is None else "target"
    tokens: Tokens = getattr(reading, side)
    ids = (id if is_special else nothing for id, is_special in zip(tokens.ids, tokens.special, strict=True))
    return replace(reading, **{side: replace(tokens, ids=tuple(ids))})  # type: ignore[arg-type]


def _embedding(reading: Reading) -> nn.Module:
    """The module whose output enters the first layer."""
    model = reading.model
    if reading.model.config.labels:
        if isinstance(model, Vit) and model.classify is not None:
            return model.embed
        if (isinstance(model, Bert) and model.config.heads[:1] == ("classify",)) or isinstance(
            model, RecurrentClassifier
        ):
            return model.encoder.embed
        if isinstance(model, Gpt) and model.classify is not None:
            return model.decoder.embed
    raise UserError("saliency is for models that classify", "give one with a head that classifies")


class _Score:
    """The log-probability of a label for other vectors (N, T, D) than those of the text."""

    def __init__(self, reading: Reading, module: nn.Module, label: int) -> None:
        self.reading, self.module, self.label = reading, module, label

    def __call__(self, x: Tensor) -> Tensor:
        hook = self.module.register_forward_hook(lambda _module, _args, _output: x)
        try:
            return self.reading.run().logits.log_softmax(-1)[:, self.label]  # (N)
        finally:
            hook.remove()

    def gradient(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(self(x).sum(), x)[0]


def _integrated(score: _Score, x: Tensor, base: Tensor, steps: int) -> Tensor:
    """(T) the mean gradient on the straight way, in the middle of each step, times the way."""
    total = torch.zeros_like(x[0])
    for some in ((torch.arange(steps, device=x.device) + 0.5) / steps).split(AT_ONCE):
        total += score.gradient(base + some[:, None, None] * (x - base)).sum(0)
    return (total / steps * (x - base)[0]).sum(-1)


@torch.no_grad()
def _occlusion(score: _Score, x: Tensor, base: Tensor, whole: Tensor) -> Tensor:
    """(T) what is lost when a token alone says nothing."""
    lost = []
    for some in torch.arange(x.size(1), device=x.device).split(AT_ONCE):
        without = x.repeat(len(some), 1, 1)
        without[torch.arange(len(some)), some] = base[0, some]
        lost.append(whole - score(without))
    return torch.cat(lost)
