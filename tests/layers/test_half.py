"""Half floats: the product is that of the rounded weights, summed in float32, with and without the kernel."""

from collections.abc import Iterator

import pytest
import torch

from regard.layers import half
from regard.layers.half import HalfWeight, has_kernel
from regard.layers.linear import Linear, hold, joined, linear, lookup, ready
from regard.layers.native import CHOICE, native


@pytest.fixture(params=["library", "kernel", "no kernel"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """By the compiled library where there is one, by PyTorch's kernel, and by neither."""
    if request.param != "library":
        monkeypatch.setenv(CHOICE, "off")
    if request.param == "no kernel":
        monkeypatch.setattr(half, "FBGEMM", None)
    has_kernel.cache_clear(), native.cache_clear()
    assert has_kernel() is (request.param != "no kernel")
    yield
    has_kernel.cache_clear(), native.cache_clear()


@pytest.mark.parametrize("shape", [(3, 5), (16, 64), (768, 256), (100, 1)])
@pytest.mark.parametrize("rows", [1, 4, 7, 40])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.usefixtures("kernel")
def test_only_the_weights_are_rounded(shape: tuple[int, int], rows: int, bias: bool) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(shape), torch.randn(2, rows, shape[1])
    b = torch.randn(shape[0]) if bias else None
    found, expected = linear(x, HalfWeight.of(weight), b), linear(x, weight.half().float(), b)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)  # sums in another order


@pytest.mark.usefixtures("kernel")
def test_weights_that_are_half_floats_lose_nothing() -> None:
    torch.manual_seed(0)
    weight, x, bias = torch.randn(64, 96).half().float(), torch.randn(3, 96), torch.randn(64)
    short = HalfWeight.of(weight)
    short.pack(bias)
    torch.testing.assert_close(short.product(x, bias), x @ weight.mT + bias)


@pytest.mark.usefixtures("kernel")
def test_what_no_half_float_reaches_becomes_the_largest_and_stays_a_number() -> None:
    weight = torch.tensor([[1e6, 0.0], [-1e30, 0.0], [1e-9, 1.0]])
    found = HalfWeight.of(weight, table=True)
    largest = torch.finfo(torch.float16).max
    torch.testing.assert_close(
        found.product(torch.tensor([[1.0, 0.0]]), None), torch.tensor([[largest, -largest, 0.0]])
    )
    torch.testing.assert_close(found.rows(torch.tensor([0, 1])), torch.tensor([[largest, 0.0], [-largest, 0.0]]))


@pytest.mark.usefixtures("kernel")
def test_a_broken_row_does_not_break_its_mates() -> None:
    torch.manual_seed(0)
    weight, x = HalfWeight.of(torch.randn(5, 8)), torch.ones(3, 8)
    x[1, 3] = torch.nan
    out = weight.product(x, None)
    assert out[[0, 2]].isfinite().all()
    assert out[1].isnan().all()


@pytest.mark.usefixtures("kernel")
def test_a_table_gives_its_rows_and_multiplies_with_any_bias() -> None:
    torch.manual_seed(0)
    weight, ids, bias = torch.randn(50, 16).half().float(), torch.tensor([[3, 49], [0, 3]]), torch.randn(50)
    table = HalfWeight.of(weight, table=True)
    assert torch.equal(lookup(ids, table), lookup(ids, weight))
    for b in (None, bias, None):
        torch.testing.assert_close(linear(torch.eye(16), table, b), linear(torch.eye(16), weight, b))


@pytest.mark.usefixtures("kernel")
def test_joined_layers_give_what_the_parts_give_side_by_side() -> None:
    torch.manual_seed(0)
    parts, x = [Linear(16, n) for n in (8, 4, 4)], torch.randn(3, 16)
    for part in parts:
        hold(part, "weight", HalfWeight.of(part.weight.detach()))
    whole = joined(parts)
    with torch.no_grad():
        torch.testing.assert_close(whole(x), torch.cat([part(x) for part in parts], -1))


@pytest.mark.usefixtures("kernel")
def test_the_plain_order_is_kept_only_where_rows_are_asked_for() -> None:
    for table in (True, False):
        weight = HalfWeight.of(torch.randn(6, 4), table=table)
        weight.pack()
        assert weight.shape == (6, 4)
        kept = table or native() is not None or not has_kernel()
        assert weight.values.numel() == (24 if kept else 0)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("table", [True, False])
@pytest.mark.usefixtures("kernel")
def test_a_broken_weight_gives_no_number(broken: float, table: bool) -> None:
    weight, x, bias = torch.ones(4, 8), torch.ones(2, 8), torch.ones(4)
    weight[1, 5] = broken
    layer = Linear(8, 4)
    hold(layer, "weight", HalfWeight.of(weight, table=table))
    hold(layer, "bias", bias)
    with torch.no_grad():
        for found in (layer(x), ready(layer)(x), ready(joined([layer, layer]))(x)):
            assert (~found.isfinite()).sum(0).tolist() == [0, 2, 0, 0] * (found.size(1) // 4)
    assert not lookup(torch.tensor([1]), HalfWeight.of(weight, table=True)).isfinite().all()


@pytest.mark.usefixtures("kernel")
def test_a_broken_bias_gives_no_number() -> None:
    short, bias = HalfWeight.of(torch.ones(4, 8)), torch.tensor([0.0, torch.nan, torch.inf, 0.0])
    assert short.ready(bias)(torch.ones(1, 8))[0].isfinite().tolist() == [True, False, False, True]
