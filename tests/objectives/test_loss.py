"""Losses are sums over real targets, equal to the closed form."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.objectives.loss import cross_entropy


@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 7), st.sampled_from([0.0, 0.1, 0.4]), st.integers(0, 99))
def test_label_smoothing_is_its_closed_form(rows: int, length: int, words: int, smoothing: float, seed: int) -> None:
    torch.manual_seed(seed)
    logits, targets = torch.randn(rows, length, words), torch.randint(0, words, (rows, length))
    valid = torch.rand(rows, length) < 0.7
    log_p = logits.double().log_softmax(-1)
    truth = (1 - smoothing) * torch.nn.functional.one_hot(targets, words) + smoothing / words
    theirs = -(truth * log_p).sum(-1)[valid].sum()
    assert_close(cross_entropy(logits, targets, valid, smoothing).double(), theirs, rtol=1e-5, atol=1e-5)


def test_no_real_target_is_zero_and_not_nan() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3, dtype=torch.bool), 0.1)
    loss.backward()
    assert loss == 0
    assert torch.isfinite(logits.grad).all()
