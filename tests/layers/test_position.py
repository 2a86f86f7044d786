"""Positions: the formulas written out, and what the formulas are for."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.errors import UserError
from regard.layers.choices import StackConfig
from regard.layers.position import (
    LearnedPosition,
    RelativeBias,
    RopeScaling,
    RotaryPosition,
    SinusoidalPosition,
    sinusoids,
)

# --- sinusoidal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 6, 7, 16])
def test_sinusoids_are_sine_and_cosine_of_place_over_ten_thousand_to_the_two_i_over_d(width: int) -> None:
    table = sinusoids(50, width)
    for place in range(50):
        for column in range(width):
            angle = place / 10_000 ** (2 * (column // 2) / width)
            assert table[place, column] == pytest.approx(math.cos(angle) if column % 2 else math.sin(angle), abs=1e-7)


@pytest.mark.parametrize("width", [2, 6, 7, 16])
def test_both_orderings_are_the_same_up_to_a_permutation(width: int) -> None:
    order = [*range(0, width, 2), *range(1, width, 2)]  # all sines, then all cosines
    assert torch.equal(sinusoids(50, width, interleaved=False), sinusoids(50, width)[:, order])


def shift_map(steps: int, width: int) -> Tensor:
    """The matrix M with PE(t + steps) = M PE(t): one little rotation per frequency, and no t in it."""
    matrix = torch.zeros(width, width, dtype=torch.float64)
    for i in range(0, width, 2):
        angle = steps / 10_000 ** (i / width)
        matrix[i : i + 2, i : i + 2] = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
    return matrix


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 40, -3])
def test_a_shift_by_k_is_one_linear_map_for_every_t(steps: int) -> None:
    table, t = sinusoids(200, 32).double(), torch.arange(5, 150)
    assert_close(table[t] @ shift_map(steps, 32).T, table[t + steps], rtol=0.0, atol=1e-6)


def test_the_map_of_a_shift_can_be_found_from_the_table_alone() -> None:
    """Solved from a few places, the map holds at all others: it does not depend on t."""
    table = sinusoids(400, 8).double()
    t = torch.arange(0, 400, 9)[:40]
    found = torch.linalg.lstsq(table[t], table[t + 5]).solution
    assert_close(table[:395] @ found, table[5:], rtol=0.0, atol=1e-4)


def test_the_likeness_of_two_places_depends_on_their_distance_alone() -> None:
    table = sinusoids(128, 64).double()
    likeness = table @ table.T
    for distance in range(64):
        along = likeness.diagonal(distance)
        assert_close(along, along[:1].expand_as(along), rtol=0.0, atol=1e-5)
        waves = sum(math.cos(distance / 10_000 ** (i / 64)) for i in range(0, 64, 2))
        assert along[0] == pytest.approx(waves, abs=1e-5)
        assert distance == 0 or along[0] < 32  # most alike is a place to itself


def test_the_table_grows_with_the_text_and_keeps_its_numbers() -> None:
    position = SinusoidalPosition(8, interleaved=True)
    short = position(torch.arange(5)[None])
    assert_close(position(torch.tensor([[3, 1000]]))[0, 1], sinusoids(1001, 8)[1000])
    assert torch.equal(position(torch.arange(5)[None]), short)
    assert not list(position.parameters())
    assert not position.state_dict()


# --- learned --------------------------------------------------------------------------------------------------------


def test_learned_positions_leave_the_offset_rows_alone() -> None:
    position = LearnedPosition(5, 4, offset=2)
    assert position.weight.shape == (7, 4)
    places = torch.tensor([[0, 4, 1]])
    assert torch.equal(position(places), position.weight[places + 2])
    position(torch.arange(5)[None]).sum().backward()
    assert position.weight.grad is not None
    assert position.weight.grad.any(-1).tolist() == [False, False, True, True, True, True, True]


def test_a_text_beyond_the_last_learned_position_is_the_users_error() -> None:
    position = LearnedPosition(5, 4, offset=2)
    with pytest.raises(UserError, match="6 tokens; the model has learned 5"):
        position(torch.arange(6)[None])


# --- rotary ---------------------------------------------------------------------------------------------------------


def turned(rotary: RotaryPosition, x: Tensor, place: int) -> Tensor:
    return rotary(torch.tensor([[place]]), x.dtype).turn(x[None, None, None])[0, 0, 0]


def test_rotary_turns_each_pair_by_its_own_angle() -> None:
    torch.manual_seed(0)
    x, rotary = torch.randn(8), RotaryPosition(8, 10_000.0, None)
    for place in (0, 1, 5, 100):
        ours = turned(rotary, x, place)
        for i in range(4):  # a pair is (i, i + K/2)
            angle = place * 10_000 ** (-2 * i / 8)
            first = x[i] * math.cos(angle) - x[i + 4] * math.sin(angle)
            second = x[i + 4] * math.cos(angle) + x[i] * math.sin(angle)
            assert_close(ours[[i, i + 4]], torch.stack([first, second]), rtol=0.0, atol=1e-5)


@settings(max_examples=50)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 100))
def test_the_score_of_turned_query_and_key_depends_on_their_distance_alone(
    m: int, n: int, shift: int, seed: int
) -> None:
    q, k = torch.randn(2, 16, generator=torch.Generator().manual_seed(seed))
    for scaling in (None, RopeScaling(original_max_len=16), RopeScaling(kind="linear", factor=4.0)):
        rotary = RotaryPosition(16, 500.0, scaling)
        here = turned(rotary, q, m) @ turned(rotary, k, n)
        there = turned(rotary, q, m + shift) @ turned(rotary, k, n + shift)
        assert_close(here, there, rtol=0.0, atol=2e-4)
        assert_close(turned(rotary, q, m).norm(), q.norm(), rtol=1e-5, atol=0.0)


def test_llama3_scaling_keeps_fast_waves_stretches_slow_ones_and_blends_between() -> None:
    factor, low, high, original, theta, width = 8.0, 1.0, 4.0, 8192, 500_000.0, 128
    expected, kinds = [], set()
    for i in range(0, width, 2):
        frequency = theta ** (-i / width)
        wavelength = 2 * math.pi / frequency
        if wavelength < original / high:
            kinds.add("kept")
        elif wavelength > original / low:
            kinds.add("stretched")
            frequency /= factor
        else:
            kinds.add("blended")
            smooth = (original / wavelength - low) / (high - low)
            frequency = (1 - smooth) * frequency / factor + smooth * frequency
        expected.append(frequency)
    assert kinds == {"kept", "stretched", "blended"}
    rotary = RotaryPosition(width, theta, RopeScaling("llama3", factor, low, high, original))
    assert_close(rotary.frequencies(torch.device("cpu")), torch.tensor(expected), rtol=1e-5, atol=0.0)


def test_linear_scaling_makes_place_n_what_place_n_over_factor_was() -> None:
    torch.manual_seed(0)
    x = torch.randn(8)
    slow, plain = RotaryPosition(8, 10_000.0, RopeScaling("linear", 4.0)), RotaryPosition(8, 10_000.0, None)
    assert_close(turned(slow, x, 20), turned(plain, x, 5), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"factor": 0.0},
        {"factor": -1.0},
        {"factor": math.nan},
        {"high_freq_factor": 1.0},
        {"low_freq_factor": 9.0},
        {"original_max_len": 0},
    ],
)
def test_scaling_that_cannot_be_computed_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match="rope"):
        RopeScaling(**wrong)


# --- relative -------------------------------------------------------------------------------------------------------

sizes = st.tuples(st.integers(4, 40), st.integers(2, 200))


def buckets(n_buckets: int, max_distance: int, *, bidirectional: bool) -> RelativeBias:
    assume(max_distance > n_buckets // 2)
    return RelativeBias(2, n_buckets, max_distance, bidirectional=bidirectional)


@given(sizes)
def test_causal_buckets_are_exact_near_then_wider_then_one_for_all_beyond(size: tuple[int, int]) -> None:
    n_buckets, max_distance = size
    relative = buckets(n_buckets, max_distance, bidirectional=False)
    back = relative.bucket(-torch.arange(400)).tolist()
    exact = n_buckets // 2
    assert back[:exact] == list(range(exact))
    assert all(a <= b for a, b in pairwise(back))
    assert set(back[max_distance:]) == {n_buckets - 1}
    assert max(back) < n_buckets
    assert set(relative.bucket(torch.arange(400)).tolist()) == {0}  # nobody attends to the future


@given(sizes)
def test_buckets_to_the_right_mirror_those_to_the_left_and_are_never_shared(size: tuple[int, int]) -> None:
    n_buckets, max_distance = size
    relative = buckets(n_buckets, max_distance, bidirectional=True)
    half, distance = n_buckets // 2, torch.arange(1, 400)
    left, right = relative.bucket(-distance), relative.bucket(distance)
    assert torch.equal(right, left + half)
    assert left.max() == half - 1
    assert relative.bucket(torch.zeros(1).long()).item() == 0
    assert left[: half // 2 - 1].tolist() == list(range(1, half // 2))


def test_far_buckets_are_logarithmic_as_in_the_paper() -> None:
    relative = RelativeBias(2, 32, 128, bidirectional=False)
    for distance in range(16, 128):
        ratio = math.log(distance / 16) / math.log(128 / 16)
        if abs(ratio * 16 - round(ratio * 16)) > 1e-4:  # not on an edge, where rounding decides
            assert relative.bucket(torch.tensor([-distance])).item() == 16 + int(ratio * 16)


@pytest.mark.parametrize(("n_buckets", "max_distance"), [(1, 128), (2, 128), (3, 128), (32, 16), (32, 1)])
def test_buckets_that_cannot_be_computed_are_refused(n_buckets: int, max_distance: int) -> None:
    with pytest.raises(UserError, match="buckets"):
        StackConfig(position="relative", n_buckets=n_buckets, max_distance=max_distance)


def test_the_bias_of_a_head_is_its_score_for_the_bucket_of_key_minus_query() -> None:
    relative = RelativeBias(3, 8, 12, bidirectional=True)
    queries, keys = torch.tensor([[4, 0]]), torch.arange(6)[None]
    ours = relative(queries, keys)
    assert ours.shape == (1, 3, 2, 6)
    for h in range(3):
        for t, place in enumerate([4, 0]):
            for s in range(6):
                bucket = relative.bucket(torch.tensor([s - place])).item()
                assert ours[0, h, t, s] == relative.table.weight[bucket, h]
