"""Norm, residual and feed-forward, each against its formula."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import NormOrder, Residual

CLOSE = {"rtol": 0.0, "atol": 1e-5}

# --- norm -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (3.0, -2.0)])
def test_the_lectures_example_of_layer_norm(a: float, b: float) -> None:
    """[100, 200, 100, 0] has mean 100 and variance 5000: the output is [b, 1.41a + b, b, -1.41a + b]."""
    norm = make_norm("layer", 4, 1e-5)
    with torch.no_grad():
        norm.weight.fill_(a)
        norm.bias.fill_(b)
    ours = norm(torch.tensor([100.0, 200.0, 100.0, 0.0]))
    assert_close(ours, torch.tensor([b, math.sqrt(2) * a + b, b, -math.sqrt(2) * a + b]), **CLOSE)


def test_layer_norm_gives_mean_zero_and_variance_one_and_forgets_shift_and_size() -> None:
    torch.manual_seed(0)
    norm, x = make_norm("layer", 64, 1e-12), torch.randn(5, 64)
    ours = norm(x)
    assert_close(ours.mean(-1), torch.zeros(5), **CLOSE)
    assert_close(ours.var(-1, unbiased=False), torch.ones(5), **CLOSE)
    assert_close(norm(3 * x + 7), ours, **CLOSE)


def test_rms_norm_divides_by_the_root_of_the_mean_square_and_scales() -> None:
    torch.manual_seed(0)
    norm, x = make_norm("rms", 8, 1e-3), torch.randn(5, 8)
    with torch.no_grad():
        norm.weight.normal_()
    for row, ours in zip(x, norm(x), strict=True):
        size = math.sqrt(sum(value**2 for value in row.tolist()) / 8 + 1e-3)
        assert_close(ours, norm.weight * row / size, **CLOSE)
    assert dict(norm.named_parameters()).keys() == {"weight"}  # no shift


# --- residual -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_order_of_norm_and_sum_is_the_formulas(order: NormOrder, kind: str) -> None:
    torch.manual_seed(0)
    norm, sublayer, x = make_norm(kind, 6, 1e-5), nn.Linear(6, 6), torch.randn(2, 3, 6)
    ours = Residual(norm, order, 0.0)(x, sublayer)
    expected = x + sublayer(norm(x)) if order == "pre" else norm(x + sublayer(x))
    assert torch.equal(ours, expected)


def test_a_sublayer_that_says_nothing_leaves_the_pre_norm_stream_untouched() -> None:
    x = torch.randn(2, 3, 6)
    assert torch.equal(Residual(make_norm("layer", 6, 1e-5), "pre", 0.0)(x, torch.zeros_like), x)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_dropout_falls_on_the_sublayer_never_on_the_stream(order: NormOrder) -> None:
    torch.manual_seed(0)
    x = torch.ones(1, 1000, 4)
    ours = Residual(nn.Identity(), order, 0.5)(x, lambda h: h)
    assert set(ours.unique().tolist()) == {1.0, 3.0}  # dropped: x alone; kept: x + 2 f(x)


# --- feed-forward ---------------------------------------------------------------------------------------------------


def gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": math.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name: str) -> None:
    x = torch.linspace(-6, 6, 97)
    expected = torch.tensor([FORMULAS[name](value) for value in x.tolist()])
    assert_close(ACTIVATIONS[name](x), expected, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_feed_forward_is_its_formula(name: str, gated: bool, bias: bool) -> None:
    torch.manual_seed(0)
    ffn, x = FeedForward(4, 6, name, gated=gated, bias=bias, dropout=0.0), torch.randn(3, 4)

    def line(layer: nn.Linear, v: Tensor) -> Tensor:
        return layer.weight @ v + (layer.bias if bias else 0.0)

    for token in x:
        inner = [FORMULAS[name](value) for value in line(ffn.gate if gated else ffn.up, token).tolist()]
        up = line(ffn.up, token) if gated else torch.ones(6)
        assert_close(ffn(token[None])[0], line(ffn.down, torch.tensor(inner) * up), **CLOSE)
    assert all((layer.bias is not None) == bias for layer in (ffn.up, ffn.down))


@pytest.mark.parametrize("gated", [False, True])
def test_no_information_moves_between_tokens(gated: bool) -> None:
    torch.manual_seed(0)
    ffn, x = FeedForward(4, 6, "gelu", gated=gated, bias=True, dropout=0.0), torch.randn(2, 5, 4)
    changed = x.clone()
    changed[:, 2] += 100.0
    before, after = ffn(x), ffn(changed)
    others = [0, 1, 3, 4]
    assert torch.equal(before[:, others], after[:, others])
    assert not torch.allclose(before[:, 2], after[:, 2])
