"""Both matrix products give the same numbers, and oneDNN's is taken only where it can be."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.layers import linear as file
from regard.layers.linear import LARGE, Linear, linear

WIDE, NARROW = 2048, LARGE // 2048 + 1


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes that went through oneDNN."""
    seen: list[tuple[int, ...]] = []
    product = file.ONEDNN
    assert product is not None, "this torch has no oneDNN"

    def watched(x: torch.Tensor, *rest: object) -> torch.Tensor:
        seen.append(tuple(x.shape))
        return product(x, *rest)

    monkeypatch.setattr(file, "ONEDNN", watched)
    return seen


@pytest.mark.parametrize("shape", [(1,), (7, 3), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_it_equals_pytorchs(shape: tuple[int, ...], bias: bool, calls: list[tuple[int, ...]]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(*shape, NARROW), torch.randn(WIDE, NARROW) * NARROW**-0.5
    b = torch.randn(WIDE) if bias else None
    exact = functional.linear(x.double(), weight.double(), None if b is None else b.double())
    torch.testing.assert_close(linear(x, weight, b).double(), exact, atol=1e-5, rtol=0)
    strided = torch.randn(*shape, 2 * NARROW)[..., ::2]
    torch.testing.assert_close(linear(strided, weight, b), functional.linear(strided, weight, b), atol=1e-5, rtol=0)
    assert calls == [tuple(x.shape)] * 2


@torch.inference_mode()
def test_a_row_does_not_depend_on_the_others(calls: list[tuple[int, ...]]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(9, NARROW), torch.randn(WIDE, NARROW) * NARROW**-0.5
    alone = torch.cat([linear(row[None], weight) for row in x])
    torch.testing.assert_close(linear(x, weight), alone, atol=1e-5, rtol=0)
    assert len(calls) == 10


def test_gradients_small_matrices_and_other_types_go_through_pytorchs(calls: list[tuple[int, ...]]) -> None:
    layer, small = Linear(NARROW, WIDE), Linear(8, 8)
    assert isinstance(layer, nn.Linear)
    layer(torch.randn(2, NARROW)).sum().backward()
    assert layer.weight.grad is not None
    with torch.inference_mode():
        small(torch.randn(2, 8))
        assert layer(torch.randn(0, NARROW)).shape == (0, WIDE)
        assert layer.double()(torch.randn(2, NARROW).double()).dtype == torch.float64
        layer.float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(torch.randn(2, NARROW)).dtype == torch.bfloat16
        assert layer.to("meta")(torch.randn(2, NARROW, device="meta")).is_meta
    assert not calls


@torch.inference_mode()
def test_without_onednn_it_is_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "ONEDNN", None)
    x, weight = torch.randn(3, NARROW), torch.randn(WIDE, NARROW)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))
