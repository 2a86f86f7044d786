"""What is minimised for pictures: the label, and what a teacher says of it."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from regard.data.images import ImageBatch
from regard.models.base import Output
from regard.objectives.recognise import Recognise

OWN, DISTIL, TEACHER = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 3, 0, 1])
BATCH = ImageBatch(torch.zeros(6, 1, 2, 2), LABELS, torch.ones(6), 6, np.arange(6))


def pupil(_: torch.Tensor) -> Output:
    return Output((OWN + DISTIL) / 2, OWN[:, None], None, {"classify": OWN, "distil": DISTIL})


def teacher(_: torch.Tensor) -> Output:
    return Output(TEACHER, TEACHER[:, None])


def loss(objective: Recognise) -> float:
    return float(objective(pupil, BATCH).total)  # type: ignore[arg-type]


def test_hard_distillation_is_half_the_label_and_half_the_teachers_label() -> None:
    said = functional.cross_entropy(DISTIL, TEACHER.argmax(-1), reduction="sum")
    true = functional.cross_entropy(OWN, LABELS, label_smoothing=0.1, reduction="sum")
    assert loss(Recognise(0.1, teacher, "hard")) == pytest.approx(float(said + true) / 2, abs=1e-5)


def test_soft_distillation_compares_softened_likelihoods() -> None:
    theirs, ours = (TEACHER / 3).softmax(-1), (DISTIL / 3).softmax(-1)
    apart = 9 * (theirs * (theirs / ours).log()).sum()
    true = functional.cross_entropy(OWN, LABELS, reduction="sum")
    assert loss(Recognise(0.0, teacher, "soft", 3.0)) == pytest.approx(float(apart + true) / 2, abs=1e-4)
    agreed = Recognise(0.0, lambda _: Output(DISTIL, DISTIL[:, None]), "soft").taught(DISTIL, BATCH)
    torch.testing.assert_close(agreed, torch.zeros(6), atol=1e-5, rtol=0)


def test_without_a_teacher_both_heads_learn_the_label() -> None:
    both = sum(functional.cross_entropy(head, LABELS, reduction="sum") for head in (OWN, DISTIL))
    assert loss(Recognise()) == pytest.approx(float(both) / 2, abs=1e-5)


def test_a_row_without_weight_does_not_count() -> None:
    idle = BATCH.without_targets()
    assert float(Recognise()(pupil, idle).total) == 0  # type: ignore[arg-type]
    assert idle.n_targets == 0
