"""`regard verify`: every equality that is promised, checked on the user's own model.

A check takes a model and returns the largest difference it found. Tolerances are for float32; what must be bit-equal
has tolerance 0.
"""

import copy
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.pairs import PairBatch, TextBatch
from regard.decoding.beam import beam_search
from regard.decoding.search import greedy
from regard.errors import UserError
from regard.layers import attention
from regard.models.base import Model
from regard.models.bert import Bert
from regard.models.gpt import Gpt
from regard.models.recurrent import RecurrentClassifier, RecurrentLanguageModel, RecurrentTranslator
from regard.models.transformer import Transformer
from regard.models.vit import Vit
from regard.objectives.causal import Causal
from regard.objectives.loss import Loss
from regard.objectives.seq2seq import Seq2Seq
from regard.training import checkpoint
from regard.training.step import step
from regard.weights.store import load_model, save_model

ROWS, LENGTH = 4, 9
NO_ROWS = np.arange(0)
WRITERS = (Gpt, Transformer, RecurrentLanguageModel, RecurrentTranslator)
PAIRED = (Transformer, RecurrentTranslator)
ATTENTIVE = (Gpt, Transformer, Bert, Vit)


@dataclass(frozen=True)
class Row:
    name: str
    difference: float | None
    "The largest found; None where the equality does not apply."
    tolerance: float
    seconds: float = 0.0
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.difference is None or self.difference <= self.tolerance  # NaN is no pass

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}


class Subject:
    """The model under test, with inputs of its own kind made from a fixed seed."""

    def __init__(self, model: Model) -> None:
        self.model: Any = model.eval()  # its kind decides which checks apply
        self.paired, self.writes = isinstance(model, PAIRED), isinstance(model, WRITERS)
        self.sees = isinstance(model, Vit)
        generator = torch.Generator().manual_seed(7)
        config = model.config
        if self.sees:
            self.pixels = torch.randn(ROWS, config.channels, *config.image_size, generator=generator)
            return
        size = min(config.vocab_size, getattr(config, "target_vocab_size", None) or config.vocab_size)
        length = min(LENGTH, config.max_len)
        self.ids = torch.randint(0, size, (ROWS, length), generator=generator)
        self.src = torch.randint(0, size, (ROWS, length), generator=generator)

    def run(self, rows: slice | list[int] = slice(None), *, ids: Tensor | None = None, **valid: Tensor) -> Tensor:
        """Logits, or vectors where there is no head."""
        if self.sees:
            return self.model(self.pixels[rows]).logits
        ids = self.ids[rows] if ids is None else ids
        return self.model(self.src[rows], ids).logits if self.paired else self.model(ids, **valid).logits

    def state(self, rows: int, max_len: int) -> Any:
        if self.paired:
            return self.model.new_state(self.model.encode(self.src[:rows], None), None, max_len)
        return self.model.new_state(rows, max_len)

    def batch(self, rows: slice) -> PairBatch | TextBatch:
        ids = self.ids[rows]
        lengths = torch.tensor([[ids.size(1)], [3]] * (ROWS // 2))[rows]  # unequal, as in life
        valid = torch.arange(ids.size(1)) < lengths
        count = int(valid[:, 1:].sum())
        if self.paired:
            return PairBatch(self.src[rows], None, ids[:, :-1], ids[:, 1:], valid[:, 1:], count, NO_ROWS)
        return TextBatch(ids[:, :-1], ids[:, 1:], valid[:, 1:], count, NO_ROWS)

    def objective(self) -> Callable[[Any, Any], Loss]:
        return Seq2Seq(label_smoothing=0.1) if self.paired else Causal()


def cached_is_uncached(subject: Subject) -> float | None:
    if not subject.writes:
        return None
    whole = subject.run()
    state = subject.state(ROWS, subject.ids.size(1))
    steps = [subject.model.step(subject.ids[:, t : t + 1], state, None) for t in range(subject.ids.size(1))]
    return worst(whole, torch.stack(steps, dim=1))


def batch_mates_do_not_matter(subject: Subject) -> float:
    together = subject.run()
    return max(worst(together[[i]], subject.run([i])) for i in range(ROWS))


def padding_does_not_matter(subject: Subject) -> float | None:
    if subject.sees:
        return None
    plain, garbage = subject.run(), subject.ids[:, :2]
    real = torch.ones_like(subject.ids, dtype=torch.bool)
    pad = torch.zeros_like(garbage, dtype=torch.bool)
    differences = []
    for left in (True, False):
        order: Callable[..., Tensor] = lambda a, b, left=left: torch.cat([a, b] if left else [b, a], dim=1)  # noqa: E731
        ids, valid = order(garbage, subject.ids), order(pad, real)
        if subject.paired:
            src = order(garbage, subject.src)
            padded = subject.model(src, subject.ids, valid).logits
        else:
            padded = subject.run(ids=ids, valid=valid)
            if padded.dim() == 3 and padded.shape[:2] == valid.shape:
                padded = padded[valid].view_as(plain)
        differences.append(worst(plain, padded))
    return max(differences)


def later_tokens_do_not_reach_back(subject: Subject) -> float | None:
    if not subject.writes:
        return None
    changed = subject.ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % int(subject.ids.max() + 1)
    return worst(subject.run()[:, :-1], subject.run(ids=changed)[:, :-1])


def beam_of_one_is_greedy(subject: Subject) -> float | None:
    if not subject.writes:
        return None
    start, limit, ends = subject.ids[:, 0], 8, subject.model.config.eos_ids
    tokens = torch.stack(
        list(greedy(subject.model.step, subject.state(ROWS, 10), start[:, None], limit=limit, end_ids=ends)), 1
    ).tolist()
    found = beam_search(subject.model.step, subject.state(ROWS, 10), start, beams=1, limit=limit, end_ids=ends)
    same = [[t for t in row if t >= 0] == list(best[0].ids) for row, best in zip(tokens, found, strict=True)]
    return float(same.count(False))


@contextmanager
def readable_attention() -> Iterator[None]:
    """Every model goes through the readable twin."""
    fast = attention.fused
    attention.fused = lambda *args, **options: attention.readable(*args, **options)[0]
    try:
        yield
    finally:
        attention.fused = fast


def fused_is_readable(subject: Subject) -> float | None:
    if not isinstance(subject.model, ATTENTIVE):
        return None
    fast = subject.run()
    with readable_attention():
        return worst(fast, subject.run())


def saved_is_loaded(subject: Subject) -> float:
    with tempfile.TemporaryDirectory() as folder:
        save_model(subject.model, folder)
        back = load_model(folder, dtype=None)
        if back.config != subject.model.config:  # interleaved sinusoids are saved with the width reordered
            difference = worst(subject.run(), Subject(back).run())
            return difference if difference > 1e-5 else 0.0
        theirs = back.state_dict()
        return max(worst(tensor, theirs[name]) for name, tensor in subject.model.state_dict().items())


def accumulated_is_whole(subject: Subject) -> float | None:
    if not subject.writes:
        return None
    whole = _gradients(subject, [subject.batch(slice(0, ROWS))])
    parts = _gradients(subject, [subject.batch(slice(0, 1)), subject.batch(slice(1, ROWS))])
    scale = max(float(gradient.abs().max()) for gradient in whole)
    return max(worst(a, b) for a, b in zip(whole, parts, strict=True)) / max(scale, 1e-12)


def _gradients(subject: Subject, batches: list[Any]) -> list[Tensor]:
    model = subject.model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step(model, batches, subject.objective(), optimizer, clip=1e9, seeds=[0] * len(batches))
    found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad(set_to_none=True)
    return found


def resumed_is_uninterrupted(subject: Subject) -> float | None:
    """Ten tiny steps in one go, and five, a checkpoint, another process's worth of forgetting, and five more."""
    if not subject.writes:
        return None
    through, broken = copy.deepcopy(subject.model), copy.deepcopy(subject.model)
    _train(subject, through, range(10))
    stopped = _train(subject, broken, range(5))
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(Path(folder), 5, broken, stopped, {})
        fresh = copy.deepcopy(subject.model)
        optimizer = torch.optim.AdamW(fresh.parameters(), lr=1e-3)
        newest = checkpoint.latest(Path(folder))
        assert newest is not None
        checkpoint.restore(newest, fresh, optimizer)
    _train(subject, fresh, range(5, 10), optimizer)
    return max(worst(a, b) for a, b in zip(through.parameters(), fresh.parameters(), strict=True))


def _train(
    subject: Subject, model: Model, steps: range, optimizer: torch.optim.Optimizer | None = None
) -> torch.optim.Optimizer:
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for number in steps:
        step(model, [subject.batch(slice(0, 2))], subject.objective(), optimizer, clip=1.0, seeds=[number])
    model.eval()
    return optimizer


def ours_is_transformers(subject: Subject) -> float | None:
    if importlib.util.find_spec("transformers") is None or subject.model.config.layout.startswith("regard-"):
        return None
    import transformers  # a comparison, never a need

    with tempfile.TemporaryDirectory() as folder:
        save_model(subject.model, folder)
        config = transformers.AutoConfig.from_pretrained(folder)
        theirs = getattr(transformers, config.architectures[0]).from_pretrained(folder).eval()
    if subject.sees:
        out = theirs(pixel_values=subject.pixels)
    elif subject.paired:
        out = theirs(input_ids=subject.src, decoder_input_ids=subject.ids)
    else:
        out = theirs(input_ids=subject.ids)
    logits = next(
        getattr(out, name)
        for name in ("logits", "prediction_logits", "last_hidden_state", "start_logits")
        if getattr(out, name, None) is not None
    )
    ours = subject.run()
    return worst(ours if ours.shape == logits.shape else ours[..., 0], logits)


def worst(a: Tensor, b: Tensor) -> float:
    return float((a.detach().float() - b.detach().float()).abs().max())


CHECKS: dict[str, tuple[Callable[[Subject], float | None], float]] = {
    "cached = uncached": (cached_is_uncached, 1e-3),
    "batch 1 = batch N": (batch_mates_do_not_matter, 1e-3),
    "padding left = right = none": (padding_does_not_matter, 1e-3),
    "causal": (later_tokens_do_not_reach_back, 0.0),
    "beam 1 = greedy": (beam_of_one_is_greedy, 0.0),
    "fused = readable": (fused_is_readable, 1e-3),
    "saved = loaded": (saved_is_loaded, 0.0),
    "accumulated = whole": (accumulated_is_whole, 1e-4),
    "resumed = uninterrupted": (resumed_is_uninterrupted, 0.0),
    "ours = transformers": (ours_is_transformers, 1e-3),
}
"Name -> check and tolerance. Logits of real models reach 50, so 1e-3 is a few roundings of float32."


def verify(model: Model, tell: Callable[[Row], None] = lambda row: None) -> list[Row]:
    if isinstance(model, RecurrentClassifier):
        model = model.eval()
    subject, rows = Subject(model), []
    for name, (check, tolerance) in CHECKS.items():
        began = time.perf_counter()
        try:
            with torch.set_grad_enabled(check in (accumulated_is_whole, resumed_is_uninterrupted)):
                row = Row(name, check(subject), tolerance, time.perf_counter() - began)
        except UserError as error:
            row = Row(name, float("inf"), tolerance, time.perf_counter() - began, note=error.message)
        rows.append(row)
        tell(row)
    return rows
