"""Rollout is the product of the layers, each half residual."""

import pytest
import torch
from torch.testing import assert_close

from inspection import readings
from inspection.packing import unpacked
from regard.errors import UserError
from regard.inspection.attention import layers_of
from regard.inspection.rollout import on_grid, payload, rollout


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "t5"])
def test_rollout_is_the_product_of_half_attention_and_half_residual(name: str) -> None:
    reading = readings.make(name)
    kind = reading.kinds[0]
    by_hand = torch.eye(len(reading.queries(kind)))
    for heads in layers_of(reading, kind):
        by_hand = (0.5 * heads.mean(0) + 0.5 * torch.eye(len(by_hand))) @ by_hand
    found = rollout(reading, kind)
    assert_close(found, by_hand, rtol=0, atol=1e-6)
    assert_close(found.sum(-1), torch.ones(len(found)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_every_fusion_and_discarding_keep_the_sum(fusion: str) -> None:
    found = rollout(readings.make("vit"), "encoder", fusion=fusion, discard=0.5)  # type: ignore[arg-type]
    assert_close(found.sum(-1), torch.ones(len(found)), rtol=0, atol=1e-5)


def test_nothing_of_the_future_is_in_a_token() -> None:
    assert not rollout(readings.make("gpt2"), "decoder").triu(1).any()


def test_the_class_token_of_an_image_on_its_grid() -> None:
    reading = readings.make("deit")
    found = rollout(reading, "encoder")
    grid = on_grid(reading, found[0])
    assert grid.shape == (3, 4)
    assert grid[1, 2] == found[0, 2 + 4 + 2]
    sent = payload(reading, "encoder")
    assert sent["grid"] == [3, 4]
    assert unpacked(sent["weights"]).tolist() == found.tolist()
    assert "grid" not in payload(readings.make("bert"), "encoder", fusion="max")


def test_cross_attention_is_no_stack() -> None:
    with pytest.raises(UserError, match="one stack"):
        rollout(readings.make("marian"), "cross")
    with pytest.raises(UserError, match="discard is 1"):
        rollout(readings.make("bert"), "encoder", discard=1.0)
