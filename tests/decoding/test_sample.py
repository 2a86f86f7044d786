"""Sampling draws from the right tokens with the right frequencies, and never at the mercy of its neighbours."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from decoding.writers import ENDS, writer
from regard.decoding.sample import SampleSettings, draw, keep_top_k, keep_top_p, sample, temper, uniform
from regard.decoding.search import greedy
from regard.errors import UserError

SCORES = torch.tensor([[0.1, 2.0, -1.0, 1.9, 0.0]])

score_lists = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=12)


def kept(scores: Tensor) -> list[int]:
    return (scores[0] > -torch.inf).nonzero()[:, 0].tolist()


def test_drawn_frequencies_are_the_probabilities() -> None:
    """Chi-square with 4 degrees of freedom exceeds 18.5 once in a thousand; the draws are always the same."""
    n = 20_000
    tokens = draw(SCORES.expand(n, -1), uniform(1, 0, n))
    seen = torch.bincount(tokens, minlength=5).double()
    expected = SCORES[0].double().softmax(-1) * n
    assert float(((seen - expected) ** 2 / expected).sum()) < 18.5


def test_rows_draw_apart_from_each_other() -> None:
    """Each of 4,000 rows draws once: their sources are as good as one."""
    luck = torch.stack([uniform(0, row, 1) for row in range(4_000)])[:, 0]
    seen = torch.bincount((luck * 10).long(), minlength=10).double()
    assert float(((seen - 400) ** 2 / 400).sum()) < 27.9  # 9 degrees of freedom, once in a thousand


def test_top_k_keeps_the_k_likeliest() -> None:
    assert kept(keep_top_k(SCORES, 2)) == [1, 3]
    assert kept(keep_top_k(SCORES, 99)) == [0, 1, 2, 3, 4]
    assert len(kept(keep_top_k(torch.zeros(1, 6), 2))) == 2  # also where all are as good


def test_top_p_keeps_the_fewest_that_reach_p() -> None:
    scores = torch.tensor([[0.125, 0.5, 0.25, 0.125]]).log()
    assert kept(keep_top_p(scores, 0.01)) == [1]
    assert kept(keep_top_p(scores, 0.49)) == [1]
    assert kept(keep_top_p(scores, 0.7)) == [1, 2]
    assert kept(keep_top_p(scores, 0.80)) == [0, 1, 2]
    assert kept(keep_top_p(scores, 1.0)) == [0, 1, 2, 3]


def test_what_is_kept_keeps_its_score() -> None:
    assert_close(keep_top_k(SCORES, 2)[0, [1, 3]], SCORES[0, [1, 3]])
    assert_close(keep_top_p(SCORES, 0.6)[0, [1, 3]], SCORES[0, [1, 3]])


@given(
    scores=score_lists,
    temperature=st.floats(0, 1e30) | st.floats(0, 1e-30),
    k=st.integers(1, 20),
    p=st.floats(1e-9, 1),
    luck=st.floats(0, 1, exclude_max=True),
)
def test_filters_always_leave_a_token_and_it_can_be_drawn(
    scores: list[float], temperature: float, k: int, p: float, luck: float
) -> None:
    left = SampleSettings(temperature, k, p).filter(torch.tensor([scores]))
    assert 1 <= len(kept(left)) <= k
    assert int(draw(left, torch.tensor([luck], dtype=torch.float64))) in kept(left)


def test_temperature_flattens_and_sharpens() -> None:
    assert_close(temper(SCORES, 2.0).softmax(-1), (SCORES / 2).softmax(-1))
    assert kept(temper(SCORES, 0.0)) == [1]
    assert float(temper(SCORES, 1e-40).softmax(-1)[0, 1]) == 1.0


@pytest.mark.parametrize("name", ["transformer", "lstm additive"])
@pytest.mark.parametrize("temperature", [0.0, 1e-6])
def test_no_temperature_is_greedy_search(name: str, temperature: float) -> None:
    w = writer(name, 5)
    prompt = w.start[:, None]
    with torch.no_grad():
        ours = list(sample(w.model.step, w.state(8), prompt, SampleSettings(temperature), limit=8, end_ids=ENDS))
        theirs = list(greedy(w.model.step, w.state(8), prompt, limit=8, end_ids=ENDS))
    assert torch.equal(torch.stack(ours), torch.stack(theirs))


@torch.no_grad()
def write(rows: slice, seed: int) -> list[list[int]]:
    w = writer("transformer", 6)
    w = type(w)(w.model, w.src[rows], w.valid[rows])
    steps = sample(w.model.step, w.state(12), w.start[:, None], SampleSettings(top_p=0.95, seed=seed), limit=12)
    return torch.stack(list(steps), 1).tolist()


def test_a_seed_repeats_a_text_and_another_does_not() -> None:
    assert write(slice(6), 7) == write(slice(6), 7)
    assert write(slice(6), 7) != write(slice(6), 8)


def test_batch_mates_do_not_matter() -> None:
    assert write(slice(6), 7)[:2] == write(slice(2), 7)


def test_a_prefix_is_written_first() -> None:
    w = writer("transformer", 2)
    steps = list(sample(w.model.step, w.state(4), w.start[:, None], SampleSettings(), limit=4, prefix=[[3, 5], [6]]))
    assert [steps[0].tolist(), int(steps[1][0])] == [[3, 6], 5]


@pytest.mark.parametrize(
    "bad", [{"temperature": -1.0}, {"temperature": math.nan}, {"temperature": math.inf}, {"top_k": 0}, {"top_p": 0.0}]
)
def test_senseless_wishes_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="expected"):
        SampleSettings(**bad)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_damaged_scores_are_an_error_not_a_token(value: float) -> None:
    for settings in (SampleSettings(top_p=0.9), SampleSettings(temperature=0.0), SampleSettings(top_k=2)):
        for scores in (torch.full((1, 4), value), torch.tensor([[1.0, abs(value), 2.0]])):
            with pytest.raises(UserError, match="give no number"):
                draw(settings.filter(scores), torch.tensor([0.5], dtype=torch.float64))
