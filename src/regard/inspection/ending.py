"""What a model makes of a token at the end: the next words, the hidden word, or the classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.inspection.figures.bars import bars
from regard.inspection.figures.drawing import Drawing
from regard.inspection.reading import Kind, Reading
from regard.models.base import Output

TOP = 5


@dataclass(frozen=True)
class Ending:
    what: str
    names: tuple[str, ...]
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]

    def drawing(self) -> Drawing:
        return bars(self.names, self.probabilities, title=self.what)

    def to_dict(self) -> dict[str, Any]:
        rows = zip(self.names, self.logits, self.probabilities, strict=True)
        return {"what": self.what, "top": [{"text": a, "logit": b, "probability": c} for a, b, c in rows]}


def ending(reading: Reading, out: Output, kind: Kind, at: int) -> Ending | None:
    """None where the model chooses nothing, and for tokens of a source that is only looked at."""
    logits, labels = chosen_from(reading, out), reading.model.config.labels
    if logits is None or (kind == "encoder" and reading.target is not None):
        return None
    if out.logits.dim() == 2:
        return _top(logits[0], "the classes", labels.__getitem__)
    if _first_head(reading) == "tag":
        return _top(logits[at], "the label of this token", labels.__getitem__)
    return _top(logits[at], "the word here" if kind == "encoder" else "the next token", reading.name_of)


def chosen_from(reading: Reading, out: Output) -> Tensor | None:
    """(T or 1, V) scores of what the model chooses from: words, or classes; None where it makes bare vectors."""
    if out.logits is out.hidden or _first_head(reading) in ("replaced_token", "next_sentence", "span"):
        return None
    return (out.logits[0] if out.logits.dim() == 3 else out.logits[:1]).float()


def _first_head(reading: Reading) -> str:
    heads: tuple[str, ...] = getattr(reading.model.config, "heads", ())
    return heads[0] if heads else ""


def _top(logits: Tensor, what: str, name: Callable[[int], str]) -> Ending:
    logits = logits.detach().float().cpu()
    best = logits.topk(min(TOP, logits.numel())).indices
    chosen = logits.softmax(-1)[best]
    numbers = (tuple(values.tolist()) for values in (logits[best], chosen))
    return Ending(what, tuple(name(i) for i in best.tolist()), *numbers)
