"""Perceiver: few vectors look at many patches."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models.tiny import make
from regard.errors import UserError
from regard.inspection.attention import attention
from regard.inspection.reading import Reading, Tokens, read_image
from regard.inspection.saliency import saliency
from regard.models.vit import VitConfig
from regard.weights.store import load_model, save_model


@pytest.mark.parametrize("side", [16, 64])
def test_as_many_vectors_go_through_the_blocks_however_many_patches_there_are(side: int) -> None:
    model = make("perceiver", image_size=(side, side))
    assert model(torch.rand(2, 3, side, side)).hidden.shape == (2, 5, 16)


def test_a_larger_picture_costs_less_than_it_costs_a_vit() -> None:
    work = {}
    for name in ("perceiver", "vit"):
        model = make(name, image_size=(128, 128))
        with FlopCounterMode(display=False) as counter:  # products only: attention itself is not even counted
            model(torch.rand(1, 3, 128, 128))
        work[name] = counter.get_total_flops()
    assert work["perceiver"] < work["vit"] / 2


def test_every_latent_and_every_patch_counts() -> None:
    model, pixels = make("perceiver"), torch.rand(2, 3, 12, 16, requires_grad=True)
    model(pixels).logits.square().sum().backward()
    assert (model.latents.grad.abs().sum(-1) > 0).all()
    assert (pixels.grad.abs() > 0).all()


def test_it_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    model, pixels = make("perceiver"), torch.rand(2, 3, 12, 16)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.config == model.config
    with torch.inference_mode():
        assert torch.equal(again(pixels).logits, model(pixels).logits)


def test_its_latents_can_be_watched_looking() -> None:
    reading = read_image(make("perceiver"), torch.rand(3, 12, 16))
    assert reading.kinds == ("decoder", "cross")
    weights = attention(reading, "cross", layer=1, head=2)
    assert weights.shape == (5, 13)  # latents; the class token and 3 x 4 patches
    torch.testing.assert_close(weights.sum(-1), torch.ones(5))
    assert reading.queries("cross").names[:2] == ("[class]", "latent 1")


def test_what_its_answer_hung_on_is_said_of_the_patches() -> None:
    found = saliency(read_image(make("perceiver"), torch.rand(3, 12, 16)))
    assert len(found.values) == len(found.tokens) == 13


def test_a_vit_has_no_latents_that_look_across() -> None:
    nothing = Tokens((), (), ())
    assert Reading(make("vit"), source=nothing, target=nothing).kinds == ("encoder",)


@pytest.mark.parametrize("wrong", [{"n_latents": -1}, {"n_latents": 4, "distil": True}, {"n_latents": 4, "window": 2}])
def test_what_it_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        VitConfig(**wrong)
