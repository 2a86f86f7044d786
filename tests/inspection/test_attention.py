"""The weights that are shown are the model's own, of any layer, head and kind, whichever kernel computed them."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from inspection import readings
from inspection.packing import unpacked
from models import tiny
from regard.errors import UserError
from regard.inspection import attention as looking
from regard.inspection.attention import alignment, attention, layers_of, overview, payload
from regard.inspection.reading import Reading, watching
from regard.layers import attention as seam
from regard.layers.attention import repeat_heads


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", readings.TRANSFORMERS)
def test_weights_times_values_are_the_output_of_every_layer(
    name: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against PyTorch's kernel, which keeps no weights: `SHORT` switches it on for short texts too."""
    monkeypatch.setattr(seam, "SHORT", 0)
    reading = readings.make(name, fused=fused)
    assert reading.kinds
    for kind in reading.kinds:
        for layer, weights in enumerate(layers_of(reading, kind)):
            module = reading.module(kind, layer)
            with watching({"attention": module}) as calls, torch.no_grad():
                reading.run()
            ((args, _, out),) = calls["attention"]
            values = repeat_heads(args[2], module.n_heads)[0]  # (H, S, K)
            ours = module.o((weights @ values).transpose(0, 1).flatten(-2))
            assert_close(ours, out[0], rtol=0, atol=1e-5)
            assert_close(weights.sum(-1), torch.ones(weights.shape[:2]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", readings.RECURRENT)
def test_recurrent_attention_is_what_the_model_reports(name: str) -> None:
    reading = readings.make(name)
    assert reading.kinds == ("cross",)
    assert reading.source is not None
    assert reading.target is not None
    ids = (torch.tensor([side.ids]) for side in (reading.source, reading.target))
    with torch.no_grad():
        theirs = reading.model.attention(*ids)[0]
    assert_close(attention(reading, "cross", 0, 0), theirs)
    with pytest.raises(UserError, match="has no head 1"):
        attention(reading, "cross", 0, 1)


def test_layers_and_heads_are_told_apart_and_average_to_the_default() -> None:
    reading = readings.make("t5")
    each = torch.stack([attention(reading, "cross", layer, head) for layer in range(2) for head in range(4)])
    assert len({tuple(weights.flatten().tolist()) for weights in each}) == 8
    assert_close(each.mean(0), attention(reading, "cross"))
    assert_close(each[4:].mean(0), attention(reading, "cross", 1))
    for layer, head in [(2, 0), (0, 4), (-1, 0)]:
        with pytest.raises(UserError, match="has no"):
            attention(reading, "cross", layer, head)


def test_a_kind_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UserError, match="no cross attention to show\n  there is encoder"):
        attention(readings.make("bert"), "cross")
    rnn = Reading(readings.writers.make("rnn"), *_sides(readings.make("gru dot")))
    with pytest.raises(UserError, match="no attention at all"):
        attention(rnn, "cross")


def _sides(reading: Reading) -> tuple[Any, Any]:
    return reading.source, reading.target


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_what_is_read_in_training_is_looked_at_in_evaluation(name: str) -> None:
    reading = readings.make(name)
    kind = reading.kinds[0]
    calm = attention(reading, kind)
    reading.model.train()
    assert_close(attention(reading, kind), calm)
    assert reading.model.training


def test_looking_leaves_no_hook_behind() -> None:
    reading = readings.make("marian")
    for kind in reading.kinds:
        attention(reading, kind)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in reading.model.modules())


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "gru dot"])
def test_padding_gets_no_weight(name: str) -> None:
    bare, padded = readings.make(name), readings.make(name, padding=3)
    for kind in bare.kinds:
        ours, theirs = attention(padded, kind), attention(bare, kind)
        rows, columns = theirs.shape
        assert_close(ours[:rows, :columns], theirs, rtol=0, atol=1e-5)
        assert not ours[:rows, columns:].any()


def test_rows_are_named_by_who_looks_and_columns_by_what_is_looked_at() -> None:
    found = alignment(readings.make("marian"), "cross", 0, 1)
    assert found.target[1:] == ("w3", "w6", "w8", "w12")
    assert found.source == ("w5", "w9", "w2", "w7", "w9", "w11", "w3")
    assert found.title == "attention of the decoder to the source, layer 0 head 1"


def test_patches_are_named_by_row_and_column() -> None:
    found = alignment(readings.make("deit"), "encoder", 1, 0)
    assert found.source[:4] == ("[class]", "[distil]", "0,0", "0,1")
    assert len(found.source) == 2 + 3 * 4


@pytest.mark.parametrize("name", ["llama", "marian", "vit", "gru dot"])
def test_the_payloads_hold_the_weights_and_say_what_they_are_of(name: str) -> None:
    reading = readings.make(name)
    kind = reading.kinds[-1]
    found = payload(reading, kind, 0, 0)
    assert unpacked(found["weights"]).tolist() == attention(reading, kind, 0, 0).tolist()
    assert unpacked(found["weights"]).shape == tuple(len(getattr(reading, found[side])) for side in ("queries", "keys"))
    small = unpacked(overview(reading, kind)["weights"])
    assert small.shape[:2] == (found["n_layers"], found["n_heads"])
    whole = torch.stack(list(layers_of(reading, kind)))
    assert np.abs(small / 255 - whole.numpy()).max() <= 0.5 / 255 + 1e-6
    assert found["n_kv_heads"] == (2 if name == "llama" else found["n_heads"])


def test_long_texts_have_small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "SIDE", 3)
    reading = readings.make("bert")
    small = unpacked(overview(reading, "encoder")["weights"])
    assert small.shape == (2, 4, 3, 3)
    strongest = attention(reading, "encoder", 0, 0).max()
    assert small[0, 0].max() == round(float(strongest) * 255)


def test_causal_attention_sees_no_future() -> None:
    weights: Tensor = attention(readings.make("llama"), "decoder", 0, 0)
    assert not weights.triu(1).any()


def test_every_family_is_tried() -> None:
    assert set(tiny.ALL) == set(readings.TRANSFORMERS)
