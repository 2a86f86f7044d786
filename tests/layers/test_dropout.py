"""Dropout drops the asked share, keeps the mean, and is a function of the seed."""

import pytest
import torch

from regard.layers.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_the_asked_share_is_dropped_in_every_lane(p: float) -> None:
    torch.manual_seed(0)
    out = Dropout(p)(torch.ones(400_000))
    for lane in range(4):  # four numbers share a random word
        share = (out[lane::4] == 0).float().mean()
        assert abs(share - p) < 4 * (p * (1 - p) / 100_000) ** 0.5
    assert abs(out.mean() - 1) < 0.01


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(1)
    kept = (Dropout(0.5)(torch.ones(400_000)) != 0).float().view(-1, 4)
    assert torch.corrcoef(kept.T).sub(torch.eye(4)).abs().max() < 0.02


def test_the_mask_is_a_function_of_the_seed() -> None:
    x, drop = torch.randn(7, 13), Dropout(0.3)
    torch.manual_seed(5)
    first = drop(x)
    torch.manual_seed(5)
    assert torch.equal(first, drop(x))
    assert not torch.equal(first, drop(x))


def test_nothing_is_dropped_in_evaluation() -> None:
    x = torch.randn(5)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_the_gradient_goes_through_what_was_kept() -> None:
    x = torch.randn(1000, requires_grad=True)
    out = Dropout(0.25)(x)
    out.sum().backward()
    assert torch.equal(x.grad != 0, out != 0)
