"""The lens ends where the model ends."""

import pytest
import torch
from torch.testing import assert_close

from inspection import readings
from regard.errors import UserError
from regard.inspection.lens import lens


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["gpt", "gpt2", "llama", "bert", "marian", "pegasus", "t5"])
def test_the_last_layer_says_what_the_model_says(name: str, fused: bool) -> None:
    reading = readings.make(name, fused=fused)
    found = lens(reading, top=3)
    with torch.no_grad():
        theirs = reading.run().logits[0].softmax(-1)
    best = theirs.topk(3)
    assert_close(found.probabilities[-1], best.values, rtol=0, atol=1e-5)
    assert found.words[-1] == tuple(tuple(map(str, row)) for row in best.indices.tolist())
    assert_close(found.final[-1], best.values[:, 0], rtol=0, atol=1e-5)
    assert not found.ranks[-1].any()
    kind = "encoder" if name == "bert" else "decoder"
    assert len(found.words) == reading.n_layers(kind) + 1
    assert found.tokens == reading.queries(kind).names


def test_a_rank_counts_the_words_before() -> None:
    found = lens(readings.make("gpt2"), top=37)
    for at in range(len(found.tokens)):
        assert found.words[0][at][int(found.ranks[0, at])] == found.words[-1][at][0]


@pytest.mark.parametrize("name", ["vit", "electra", "gru dot"])
def test_models_without_words_at_the_end_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="needs a model that ends in words"):
        lens(readings.make(name))


def test_it_can_be_drawn_and_written() -> None:
    found = lens(readings.make("gpt2"))
    assert "embedding" in found.svg()
    assert len(found.table()) == 1 + 3 * 7
    assert found.to_dict()["words"][2][0][0] == found.words[2][0][0]
