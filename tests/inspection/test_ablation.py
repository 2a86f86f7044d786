"""A silenced head or layer changes the output exactly as if it were not there."""

import pytest
import torch
from torch.testing import assert_close

from inspection import readings
from regard.errors import UserError
from regard.inspection.ablation import ablate, ablate_heads, silenced


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama one key head", "marian", "t5", "vit"])
@torch.no_grad()
def test_a_silent_head_is_one_whose_output_weights_are_zero(name: str, fused: bool) -> None:
    reading = readings.make(name, fused=fused)
    for kind in reading.kinds:
        with silenced(reading, kind, 0, 1):
            ours = reading.run().hidden
        module = reading.module(kind, 0)
        kept = module.o.weight.clone()
        module.o.weight[:, module.d_head : 2 * module.d_head] = 0.0  # type: ignore[index]
        theirs = reading.run().hidden
        module.o.weight.copy_(kept)  # type: ignore[union-attr]
        assert_close(ours, theirs, rtol=0, atol=1e-5)
        assert (ours - reading.run().hidden).abs().max() > 1e-3


@torch.no_grad()
def test_a_silent_layer_is_one_that_is_not_there() -> None:
    reading = readings.make("bert")
    with silenced(reading, "encoder", 1):
        ours = reading.run().hidden
    del reading.model.encoder.blocks[1]
    assert_close(ours, reading.run().hidden)


def test_the_change_is_zero_where_nothing_was_said() -> None:
    reading = readings.make("gpt2")
    with torch.no_grad():
        reading.module("decoder", 0).o.weight[:, :4] = 0.0  # type: ignore[index]
    assert ablate(reading, "decoder", 0, 0).change == pytest.approx(0, abs=1e-7)
    assert ablate(reading, "decoder", 0, 1).change > 1e-4


@torch.no_grad()
def test_the_change_is_the_divergence_of_what_is_chosen() -> None:
    reading = readings.make("marian")
    found = ablate(reading, "cross", 0, 0)
    before = reading.run().logits[0].softmax(-1)
    with silenced(reading, "cross", 0, 0):
        after = reading.run().logits[0].softmax(-1)
    by_hand = (before * (before / after).log()).sum(-1)
    assert_close(found.by_token, by_hand, rtol=1e-3, atol=1e-6)
    assert found.measure == "divergence in nats"
    assert found.before is not None
    assert found.after is not None
    assert found.before.probabilities != found.after.probabilities


def test_bare_vectors_are_compared_by_their_angle() -> None:
    found = ablate(readings.make("electra"), "encoder", 1)
    assert found.measure == "1 - cosine"
    assert 0 < found.change < 2
    assert found.what == "layer 1 of the encoder"


def test_every_head_in_turn() -> None:
    reading = readings.make("vit")
    found = ablate_heads(reading, "encoder")
    assert found.changes.shape == (2, 4)
    assert float(found.changes[1, 2]) == pytest.approx(ablate(reading, "encoder", 1, 2).change, abs=1e-6)
    assert found.to_dict()["type"] == "ablations"
    assert "layer 1" in found.svg()


def test_recurrent_models_are_refused_and_nothing_stays_behind() -> None:
    with pytest.raises(UserError, match="no heads or blocks"):
        ablate(readings.make("gru dot"), "cross", 0, 0)
    reading = readings.make("bert")
    with pytest.raises(UserError, match="has no head 9"):
        ablate(reading, "encoder", 0, 9)
    ablate_heads(reading, "encoder")
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in reading.model.modules())
