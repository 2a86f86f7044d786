"""Eight-bit weights: how far off they are, and that nothing but the row itself decides what a row becomes."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers import int8
from regard.layers.int8 import Int8Weight, largest_step, turn
from regard.layers.linear import Linear, hold, joined, linear, lookup
from regard.layers.native import CHOICE, native


@pytest.fixture(params=["library", "pytorch"], autouse=True, scope="module")
def library(request: pytest.FixtureRequest) -> Iterator[None]:
    """By the compiled library where there is one, and by PyTorch's kernel."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "pytorch":
            patch.setenv(CHOICE, "off")
        native.cache_clear()
        yield
    native.cache_clear()


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("shape", [(3, 5), (16, 64), (768, 256), (100, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_that_of_the_floats_within_two_percent(shape: tuple[int, int], bias: bool) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(shape), torch.randn(5, 3, shape[1])
    b = torch.randn(shape[0]) if bias else None
    assert relative(linear(x, Int8Weight.of(weight), b), linear(x, weight, b)) < 0.02


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.floats(-6, 6), st.integers(1, 70), st.sampled_from([5, 40, 64, 96, 256, 384, 768]))
def test_a_row_is_bit_equal_whoever_its_mates_are(seed: int, magnitude: float, mates: int, width: int) -> None:
    torch.manual_seed(seed)
    weight, row = Int8Weight.of(torch.randn(24, width)), torch.randn(1, width)
    alone = weight.product(row, None)
    others = torch.randn(mates, width) * 10.0**magnitude
    others[0, 0] = 1e6  # an outlier
    assert torch.equal(weight.product(torch.cat([others, row]), None)[-1:], alone)


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e6, 1e30])
def test_any_magnitude_keeps_its_precision(scale: float) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(8, 32), torch.randn(4, 32)
    found = Int8Weight.of(weight).product(x * scale, None) / scale
    assert relative(found, x @ weight.mT) < 0.02


def test_a_few_large_numbers_leave_the_others_their_precision() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(64, 384), torch.randn(8, 384)
    x[:, 62] = 40.0
    weight[:, 62] = 0.0
    as_it_stands = (x * 63 / 40).round() * 40 / 63
    ours, plain = Int8Weight.of(weight).product(x, None), as_it_stands @ weight.mT
    assert relative(ours, x @ weight.mT) < relative(plain, x @ weight.mT) / 3


@pytest.mark.parametrize("width", [1, 5, 36, 48, 384, 1024])
def test_turning_twice_is_turning_back(width: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, width)
    torch.testing.assert_close(turn(turn(x)), x)
    torch.testing.assert_close(turn(x).norm(), x.norm())


def test_zeros_stay_zeros_and_what_is_no_number_stays_none() -> None:
    weight = Int8Weight.of(torch.cat([torch.zeros(1, 8), torch.randn(2, 8)]))
    assert (weight.product(torch.zeros(2, 8), None) == 0).all()
    assert weight.product(torch.randn(1, 8), None)[0, 0] == 0
    for broken in (torch.nan, torch.inf):
        x = torch.ones(2, 8)
        x[1, 3] = broken
        out = weight.product(x, None)
        assert out[0].isfinite().all()
        assert not out[1].isfinite().any()


def test_a_table_gives_its_rows_and_multiplies_too() -> None:
    torch.manual_seed(0)
    weight, ids = torch.randn(50, 16), torch.tensor([[3, 49], [0, 3]])
    table = Int8Weight.of(weight, table=True)
    for _ in range(2):  # before and after it is packed
        assert relative(lookup(ids, table), lookup(ids, weight)) < 0.01
        assert relative(linear(torch.eye(16), table), weight.mT) < 0.02


@pytest.mark.parametrize("eight_bits", [True, False])
def test_joined_layers_give_what_the_parts_give_side_by_side(eight_bits: bool) -> None:
    torch.manual_seed(0)
    parts, x = [Linear(16, n) for n in (8, 4, 4)], torch.randn(3, 16)
    if eight_bits:
        for part in parts:
            hold(part, "weight", Int8Weight.of(part.weight.detach()))
    whole = joined(parts)
    with torch.no_grad():
        torch.testing.assert_close(whole(x), torch.cat([part(x) for part in parts], -1), rtol=0, atol=1e-5)


def test_without_the_kernel_the_result_is_slower_and_still_right(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(8, 32), torch.randn(4, 32)
    monkeypatch.setattr(int8, "FBGEMM", None)
    largest_step.cache_clear()
    try:
        assert largest_step() is None
        assert relative(Int8Weight.of(weight).product(x, None), x @ weight.mT) < 0.01
    finally:
        largest_step.cache_clear()


SATURATED = """
import torch
from regard.layers.int8 import Int8Weight, largest_step, turn
torch.manual_seed(0)
weight, x = torch.randn(64, 256).abs(), torch.randn(8, 256).abs()
found, expected = Int8Weight.of(weight).product(x, None), x @ weight.mT
print(largest_step(), float((found - expected).norm() / expected.norm()))
"""


@pytest.mark.parametrize("limit", ["AVX2", ""])
def test_a_cpu_without_vnni_gets_seven_bits_and_no_overflow(limit: str) -> None:
    """Positive numbers only: the worst for an instruction that adds pairs in sixteen bits."""
    env = os.environ | ({"FBGEMM_ENABLE_INSTRUCTIONS": limit, "ONEDNN_MAX_CPU_ISA": limit} if limit else {})
    done = subprocess.run([sys.executable, "-c", SATURATED], capture_output=True, text=True, env=env, check=True)
    steps, error = done.stdout.split()
    assert int(steps) in ((63,) if limit else (63, 127))
    assert float(error) < 0.02
