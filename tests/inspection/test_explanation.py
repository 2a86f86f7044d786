"""Every number of an explanation is the model's own, and they follow from each other as the paper says."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from inspection import readings
from models import tiny
from regard.inspection.ablation import silenced
from regard.inspection.attention import attention
from regard.inspection.explanation import explain
from regard.inspection.reading import watching
from regard.layers import attention as seam

NEAR = {"rtol": 0, "atol": 1e-5}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", readings.TRANSFORMERS)
def test_the_numbers_follow_from_each_other_and_end_at_the_models_own_output(
    name: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "SHORT", 0)  # the model itself uses PyTorch's kernel
    reading = readings.make(name, fused=fused)
    for kind in reading.kinds:
        layer, head, query = reading.n_layers(kind) - 1, reading.n_heads(kind) - 1, len(reading.queries(kind)) - 2
        found = explain(reading, kind, layer, head, query)
        module = reading.module(kind, layer)
        assert_close(found.scores, found.k @ found.q)
        bias = 0.0 if found.bias is None else found.bias
        assert_close(found.scaled, found.scores * module.scale + bias)
        open_ = torch.tensor([not closed for closed in found.reasons])
        assert_close(found.weights, found.scaled.masked_fill(~open_, -math.inf).softmax(-1), **NEAR)
        assert_close(found.weights, attention(reading, kind, layer, head)[query], **NEAR)
        assert_close(found.weights.sum(), torch.tensor(1.0), **NEAR)
        assert_close(found.weighted, found.weights[:, None] * found.v)
        assert_close(found.total, found.weighted.sum(0))
        mine = module.o.weight[:, head * module.d_head : (head + 1) * module.d_head].detach()
        assert_close(found.projected, mine @ found.total, **NEAR)
        assert found.error <= 1e-5
        with watching({"attention": module, "block": reading.stack(kind).blocks[layer]}) as calls, torch.no_grad():
            reading.run()
        assert_close(found.attended, calls["attention"][0].output[0, query], **NEAR)
        assert_close(found.steps[0].values, calls["block"][0].args[0][0, query], **NEAR)
        assert_close(found.steps[-1].values, calls["block"][0].output[0, query], **NEAR)


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "qwen2"])
def test_the_parts_of_all_heads_and_the_bias_are_the_whole(name: str) -> None:
    reading = readings.make(name)
    kind = reading.kinds[-1]
    parts = [explain(reading, kind, 0, head, 2) for head in range(reading.n_heads(kind))]
    bias = reading.module(kind, 0).o.bias
    total = torch.stack([part.projected for part in parts]).sum(0) + (0 if bias is None else bias.detach())
    assert_close(total, parts[0].attended, **NEAR)


def test_without_its_head_the_whole_loses_exactly_its_part() -> None:
    reading = readings.make("gpt2")
    found = explain(reading, "decoder", 0, 1, 3)
    with silenced(reading, "decoder", 0, 1):
        without = explain(reading, "decoder", 0, 1, 3)
    assert_close(found.attended - without.attended, found.projected, **NEAR)


def test_grouped_queries_share_the_key_head_that_is_named() -> None:
    reading = readings.make("llama")  # four heads, two of keys
    found = [explain(reading, "decoder", 0, head, 3) for head in range(4)]
    assert [each.key_head for each in found] == [0, 0, 1, 1]
    assert_close(found[0].k, found[1].k)
    assert_close(found[2].v, found[3].v)
    assert not torch.equal(found[1].k, found[2].k)


@pytest.mark.parametrize(
    ("name", "norm"), [("bert", "after"), ("gpt2", "before"), ("marian", "after"), ("t5", "before")]
)
def test_the_steps_of_the_block_are_told_in_their_order(name: str, norm: str) -> None:
    reading = readings.make(name)
    found = explain(reading, reading.kinds[-1], 0, 0, 1)
    parts = ["self-attention", *(["cross-attention"] if "cross" in reading.kinds else []), "feed-forward"]
    expected = ["enters the block"]
    for part in parts:
        both = [part, "+ what entered"]
        expected += [f"norm before {part}", *both] if norm == "before" else [*both, f"norm after {part}"]
    assert [step.name for step in found.steps] == expected


@pytest.mark.parametrize("name", readings.RECURRENT)
def test_attention_older_than_the_transformer_is_explained_too(name: str) -> None:
    reading = readings.make(name)
    for query in (0, 3):
        found = explain(reading, "cross", 0, 0, query)
        assert_close(found.weights, found.scores.softmax(-1), **NEAR)
        assert_close(found.weights, attention(reading, "cross", 0, 0)[query], **NEAR)
        assert_close(found.total, found.attended, **NEAR)
        assert found.error <= 1e-5
        with torch.no_grad():
            logits = reading.run().logits[0, query]
        assert found.ending is not None
        assert found.ending.logits[0] == pytest.approx(float(logits.max()), abs=1e-5)


def test_the_end_is_what_the_model_says() -> None:
    for name, kind, what in [("gpt2", "decoder", "the next token"), ("marian", "cross", "the next token")]:
        reading = readings.make(name)
        found = explain(reading, kind, 0, 0, 2).ending  # type: ignore[arg-type]
        with torch.no_grad():
            logits = reading.run().logits[0, 2]
        assert found is not None
        assert found.what == what
        assert found.names[0] == str(int(logits.argmax()))
        assert found.probabilities[0] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-6)
    classes = explain(readings.make("vit"), "encoder", 0, 0, 0).ending
    assert classes is not None
    assert set(classes.names) == {"cat", "dog", "owl"}
    assert sum(classes.probabilities) == pytest.approx(1)
    bare = replace(readings.make("bert"), model=tiny.make("bert", heads=()))
    assert explain(bare, "encoder", 0, 0, 0).ending is None
    assert explain(readings.make("marian"), "encoder", 0, 0, 0).ending is None


def test_closed_keys_say_why_and_have_no_weight() -> None:
    found = explain(readings.make("gpt2 local", padding=2), "decoder", 0, 0, 4)
    assert found.reasons[:2] == ("beyond the window",) * 2
    assert found.reasons[2:5] == ("",) * 3
    assert found.reasons[5] == "future"
    assert found.reasons[7] == "padding and future and beyond the window"
    assert not found.weights[[0, 1, 5, 6, 7, 8]].any()


def test_the_payload_is_json_with_every_number() -> None:
    found = explain(readings.make("t5"), "encoder", 1, 2, 3)
    payload = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert payload["type"] == "explanation"
    assert payload["query"] == {"i": 3, "text": "w7", "q": [float(f"{x:.9g}") for x in found.q.tolist()]}
    rows = payload["keys"]
    assert_close(torch.tensor([row["weight"] for row in rows]), found.weights, rtol=0, atol=0)
    assert_close(torch.tensor([row["weighted"] for row in rows]).sum(0), torch.tensor(payload["sum"]), **NEAR)
    assert {"score", "scaled", "bias", "k", "v", "closed_by"} <= rows[0].keys()
    assert payload["check"]["largest_error"] <= 1e-5


def test_numbers_table_and_csv_agree() -> None:
    found = explain(readings.make("gpt2"), "decoder", 0, 0, 2)
    rows = [line.split(",") for line in found.csv().splitlines()]
    assert rows[0][:5] == ["key", "score", "scaled", "closed by", "weight"]
    assert len(rows) == 1 + len(found.keys)
    assert len(rows[0]) == 5 + 3 * 4
    assert found.numbers().shape == (7, 3 + 3 * 4)
    assert float(rows[2][4]) == pytest.approx(float(found.weights[1]))


def test_it_shows_itself() -> None:
    found = explain(readings.make("gpt2"), "decoder", 0, 0, 2)
    assert found.title == "“w2”: self-attention of the decoder, layer 0 head 0"
    assert "feed-forward" in found.svg()
    assert found._repr_html_().startswith("<iframe sandbox")
