"""What must not change training: how a batch is cut up, and whether a run was stopped and taken up again."""

import copy
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from regard.errors import FAILURE, UserError
from regard.inspection.summary import human
from regard.lab.finding import DoesNotApply, Found, compare
from regard.lab.lesson import lesson_of
from regard.lab.subject import Subject
from regard.machine import memory_limit_bytes
from regard.models.base import Model
from regard.training import checkpoint
from regard.training.schedule import rate
from regard.training.step import StepResult, step

STEPS, STOP = 10, 5
BYTES = 32
"A parameter at the worst moment: the model, a copy in training (16 with Adam), the copy before it, and a file."


def accumulated_is_whole(subject: Subject) -> Found:
    """The loss and every gradient of four rows at once, and of one and three with other numbers of targets."""
    _must_train(subject)
    (loss, whole), (sum_, parts) = _gradients(subject, [[0, 1, 2, 3]]), _gradients(subject, [[0], [1, 2, 3]])
    scale = max(float(gradient.abs().max()) for gradient in whole)  # some gradients are rounding and nothing else
    found = compare(zip(parts, whole, strict=True), scale=scale)
    return max(found, compare([(sum_, loss)]), key=lambda each: each.closeness)


def _must_train(subject: Subject) -> None:
    if lesson_of(subject) is None:
        raise DoesNotApply(f"{subject.kind} that has no head to train learns nothing")
    needed, here = BYTES * subject.model.n_parameters, memory_limit_bytes()
    if here is not None and needed > here:
        raise DoesNotApply(f"training it needs {human(needed, 'B')} of memory, and here are {human(here, 'B')}")


def _gradients(subject: Subject, cuts: list[list[int]]) -> tuple[Tensor, list[Tensor]]:
    model = subject.model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # the weights stay as they are
    result = _step(subject, model, cuts, optimizer, clip=1e9, seed=0)
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad(set_to_none=True)
    return torch.tensor(result.loss), found


def interrupted_is_uninterrupted(subject: Subject) -> Found:
    """Ten tiny steps; and the last five again, by a model that has only the checkpoint from between."""
    _must_train(subject)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        model = copy.deepcopy(subject.model)
        optimizer = _optimizer(model)
        _train(subject, model, optimizer, range(STOP))
        before = checkpoint.weights_of(copy.deepcopy(model))
        checkpoint.save(Path(folder), STOP, model, optimizer, {})
        saving = compare(_named(before, checkpoint.weights_of(model)), exact=True)  # must leave the run as it was
        _train(subject, model, optimizer, range(STOP, STEPS))
        through = checkpoint.weights_of(model) | checkpoint.moments_of(model, optimizer)
        del before, model, optimizer  # memory
        model, optimizer = _take_up(subject, Path(folder))
    _train(subject, model, optimizer, range(STOP, STEPS))
    resumed = checkpoint.weights_of(model) | checkpoint.moments_of(model, optimizer)
    return max(saving, compare(_named(through, resumed), exact=True), key=lambda found: found.closeness)


def _named(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """By name; what only one of them has is a difference too."""
    nothing = torch.empty(0)
    return [(one.get(name, nothing), other.get(name, nothing)) for name in one.keys() | other.keys()]


def _take_up(subject: Subject, folder: Path) -> tuple[Model, torch.optim.Optimizer]:
    torch.manual_seed(STEPS)  # another process has had another luck
    model = copy.deepcopy(subject.model)
    optimizer = _optimizer(model)
    newest = checkpoint.latest(folder)
    assert newest is not None
    checkpoint.restore(newest, model, optimizer)
    return model, optimizer


def _optimizer(model: Model) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def _train(subject: Subject, model: Model, optimizer: torch.optim.Optimizer, steps: range) -> None:
    model.train()
    for number in steps:
        for group in optimizer.param_groups:
            group["lr"] = rate(number, kind="inverse_sqrt", peak=1e-3, warmup=STOP, steps=STEPS)
        _step(subject, model, [[number % 4, (number + 1) % 4]], optimizer, clip=1.0, seed=number)
    optimizer.zero_grad(set_to_none=True)  # memory


def _step(
    subject: Subject, model: Model, cuts: list[list[int]], optimizer: torch.optim.Optimizer, *, clip: float, seed: int
) -> StepResult:
    lesson = lesson_of(subject)
    assert lesson is not None, "asked before"
    objective, batches = lesson(cuts[0])[0], [lesson(rows)[1] for rows in cuts]
    result = step(model, batches, objective, optimizer, clip=clip, seeds=[seed + part for part in range(len(batches))])
    if result.bad:  # such a step changes nothing, and two runs of nothing are equal
        raise UserError(f"the gradient of {result.bad} is not a number", exit_code=FAILURE)
    return result
