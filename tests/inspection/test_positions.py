"""Positions as they are: the paper's properties hold for the tables that the models use."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from inspection import readings
from inspection.packing import unpacked
from models import tiny
from regard.errors import UserError
from regard.inspection.positions import positions_of_model, shift_map, sinusoidal
from regard.layers.position import sinusoids


@given(st.integers(1, 32), st.integers(1, 200), st.booleans(), st.integers(0, 300))
def test_a_step_is_the_same_linear_map_wherever_it_starts(half: int, step: int, interleaved: bool, at: int) -> None:
    table = sinusoids(at + step + 1, 2 * half, interleaved=interleaved).double()
    map = shift_map(2 * half, step, interleaved=interleaved)
    assert_close(map @ table[at], table[at + step], rtol=0, atol=1e-5)
    assert_close(map @ map.T, torch.eye(2 * half, dtype=torch.float64))  # it turns, and stretches nothing


def test_the_largest_error_of_the_map_is_shown() -> None:
    found = sinusoidal(100, 64, step=7)
    assert found.map_error is not None
    assert found.map_error < 1e-6
    with pytest.raises(UserError, match="do not pair up"):
        sinusoidal(4, 5)


def test_sinusoids_are_less_alike_the_farther_apart_and_only_the_distance_counts() -> None:
    found = sinusoidal(60, 128)
    assert found.curve[0] == pytest.approx(1)
    assert found.curve[1] > found.curve[2] > found.curve[4] > found.curve[8] > found.curve[30]
    assert found.alike is not None
    assert_close(found.alike.diagonal(5), found.curve[5].expand(55), rtol=0, atol=1e-5)


def test_without_positions_outputs_only_permute() -> None:
    reading = readings.make("bert")
    bare = tiny.make("bert", position="none", heads=())
    ids = torch.tensor([[5, 9, 2, 7, 11]])
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        assert_close(bare(ids[:, order]).hidden, bare(ids).hidden[:, order], rtol=0, atol=1e-5)
        told = reading.model(ids[:, order]).hidden - reading.model(ids).hidden[:, order]
    assert told.abs().max() > 1e-2
    with pytest.raises(UserError, match="knows no positions"):
        positions_of_model(bare)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("bert", "learned"), ("gpt2", "learned"), ("vit", "learned"), ("llama", "rotary"), ("t5", "relative")),
        *(("marian", "sinusoidal"), ("transformer", "sinusoidal")),
    ],
)
def test_every_kind_is_shown_with_the_models_own_values(name: str, kind: str) -> None:
    model = tiny.make(name)
    found = positions_of_model(model, 8)
    assert found.kind == kind
    assert_close(torch.from_numpy(unpacked(found.to_dict()["values"]).copy()), found.values)
    assert found.svg().startswith("<svg")
    assert len(found.csv().splitlines()) == 1 + len(found.values)


def test_learned_values_are_the_rows_that_are_added() -> None:
    roberta = tiny.make("roberta")
    assert_close(positions_of_model(roberta, 8).values, roberta.encoder.embed.position.weight[2:10].detach())
    assert len(positions_of_model(roberta, 1000).values) == tiny.LENGTH


def test_rotary_scores_depend_on_the_distance_as_the_curve_says() -> None:
    rotary = tiny.make("llama").decoder.rotary
    found = positions_of_model(tiny.make("llama"), 12)
    vector = torch.ones(1, 1, 12, rotary.d_head)
    turned = rotary(torch.arange(12)[None], torch.float32).turn(vector)[0, 0]
    scores = turned @ turned.T / rotary.d_head
    assert found.alike is not None
    assert_close(scores, found.alike, rtol=0, atol=1e-5)
    assert found.map_error is not None
    assert found.map_error < 1e-9


def test_relative_bias_is_what_the_scores_get() -> None:
    t5 = tiny.make("t5")
    for side, is_both in (("encoder", True), ("decoder", False)):
        found = positions_of_model(t5, 6, side=side)  # type: ignore[arg-type]
        stack = getattr(t5, side)
        places = torch.arange(6)[None]
        bias = stack.relative(places, places)[0].detach()
        for query in range(6):
            for key in range(6 if is_both else query + 1):
                at = found.distances.tolist().index(key - query)
                assert_close(found.values[:, at], bias[:, query, key])


def test_recurrent_models_have_none() -> None:
    with pytest.raises(UserError, match="reading in it"):
        positions_of_model(readings.make("gru dot").model)
