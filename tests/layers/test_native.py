"""The compiled library gives what PyTorch gives, for every kind of weight, any size, and broken numbers too."""

import ctypes
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import linear

from regard.decoding.top import top, top_log_probs
from regard.layers import native as module
from regard.layers.half import HalfWeight
from regard.layers.int8 import Int8Weight, turn
from regard.layers.linear import Linear, hold
from regard.layers.native import CHOICE, LEVELS, Native, describe, native

needs_library = pytest.mark.skipif(native() is None, reason="nothing was compiled for this CPU: python tools/native.py")


def test_where_there_is_a_compiler_there_is_a_library() -> None:
    """What all other tests here stand on: on x86-64 with AVX2 the installation has compiled it."""
    has = torch.cpu.get_capabilities()
    if has.get("architecture") == "x86_64" and all(has.get(need) for need in LEVELS["avx2"]):
        assert native() is not None


@needs_library
@settings(deadline=None, max_examples=60)
@given(st.integers(1, 70), st.integers(1, 90), st.integers(1, 330), st.booleans(), st.integers(0, 2**16))
def test_floats_multiply_as_in_pytorch(m: int, n: int, k: int, half: bool, seed: int) -> None:
    torch.manual_seed(seed)
    x, weight, bias = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    held = HalfWeight.of(weight) if half else weight
    own = describe(held, bias)
    library = native()
    assert own is not None
    assert library is not None
    expected = linear(x, weight.half().float() if half else weight, bias)
    torch.testing.assert_close(library.product(own, x), expected, rtol=1e-5, atol=1e-4)


@needs_library
@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 330), st.integers(0, 2**16))
def test_eight_bits_multiply_whole_numbers_exactly(m: int, n: int, k: int, seed: int) -> None:
    """The rounded rows times the rounded weights, computed here in double precision, are what comes out."""
    torch.manual_seed(seed)
    x, weight = torch.randn(m, k), Int8Weight.of(torch.randn(n, k))
    turned = turn(x)
    scale = turned.abs().amax(-1, keepdim=True) / 127
    exact = turned / scale
    whole = exact.round().double() @ weight.values.double().mT * scale * weight.scales
    # A number that lies within a hair of the middle of two steps may be rounded to either.
    unsure = ((exact - exact.floor() - 0.5).abs() < 1e-3).any(-1)
    found = weight.product(x, None)
    torch.testing.assert_close(found[~unsure], whole.float()[~unsure], rtol=1e-5, atol=1e-5)


@needs_library
@pytest.mark.parametrize("kind", [HalfWeight, Int8Weight])
@settings(deadline=None, max_examples=30)
@given(st.integers(1, 80), st.integers(1, 40), st.integers(1, 200), st.integers(0, 2**16))
def test_a_row_is_the_same_to_the_bit_in_any_company(kind: type, m: int, n: int, k: int, seed: int) -> None:
    torch.manual_seed(seed)
    x, weight = torch.randn(m, k) * torch.tensor([1.0, 1e4])[torch.randint(2, (m, 1))], kind.of(torch.randn(n, k))
    together = weight.product(x, None)
    for row in (0, m // 2, m - 1):
        assert torch.equal(weight.product(x[row : row + 1], None)[0], together[row])


@needs_library
@pytest.mark.parametrize("kind", [HalfWeight, Int8Weight])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_broken_row_gives_no_number_and_spares_the_others(kind: type, broken: float) -> None:
    x, weight = torch.ones(3, 40), kind.of(torch.randn(5, 40) + 2)
    x[1, 7] = broken
    out = weight.product(x, None)
    assert out[[0, 2]].isfinite().all()
    assert not out[1].isfinite().any()


@needs_library
@pytest.mark.parametrize("kind", [HalfWeight, Int8Weight])
@pytest.mark.parametrize("width", [1, 24, 64, 100])
def test_rows_of_a_table_are_those_of_pytorch(kind: type, width: int) -> None:
    torch.manual_seed(0)
    table, ids = kind.of(torch.randn(50, width), table=True), torch.tensor([[3, 49], [0, 3]])
    torch.testing.assert_close(table.rows(ids), table.rows_by_torch(ids))
    for wrong in (-1, 50):
        with pytest.raises(IndexError):
            table.rows(torch.tensor([wrong]))


@needs_library
@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 700), st.integers(1, 9), st.integers(0, 2**16))
def test_the_best_words_are_those_of_topk(n: int, size: int, k: int, seed: int) -> None:
    torch.manual_seed(seed)
    scores, k = torch.randperm(n * size).view(n, 1, size) / 9, min(k, size)
    best, tokens = scores.topk(k)
    assert torch.equal(top(scores, k)[1], tokens)
    assert torch.equal(top(scores, k)[0], best)
    log_probs, again = top_log_probs(scores, k)
    assert torch.equal(again, tokens)
    torch.testing.assert_close(log_probs, scores.log_softmax(-1).gather(-1, tokens), rtol=1e-5, atol=1e-5)


@needs_library
def test_of_equals_the_first_is_best_and_what_is_no_number_shows() -> None:
    scores = torch.zeros(2, 1, 100)
    assert top(scores, 1)[1].tolist() == [[[0]], [[0]]]
    scores[1, 0, 70] = torch.nan
    for found, _ in (top(scores, 3), top_log_probs(scores, 3)):
        assert found[0].isfinite().all()
        assert found[1, 0, 0].isnan()


@pytest.mark.usefixtures("afresh")
def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "off")
    assert native() is None
    layer = Linear(64, 8)
    hold(layer, "weight", Int8Weight.of(layer.weight.detach()))
    assert layer.weight.native(None) is None


@pytest.mark.usefixtures("afresh")
@needs_library
def test_a_library_that_multiplies_wrongly_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Native.product
    monkeypatch.setattr(Native, "product", lambda self, weight, x: right(self, weight, x) + 1)
    assert native() is None


@pytest.mark.usefixtures("afresh")
def test_a_file_that_is_no_library_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for level in LEVELS:
        (tmp_path / f"{level}.so").write_bytes(b"not a library")
    monkeypatch.setattr(module, "HOME", tmp_path)
    assert native() is None


def test_no_second_set_of_threads_comes_with_it() -> None:
    """It is linked to no OpenMP of its own: two would fight for the cores."""
    for path in module.HOME.glob("*.so"):
        assert b"libgomp.so" not in path.read_bytes()
        assert ctypes.CDLL(str(path)).run_blocks is not None
