"""Saliency adds up where it promises to, and finds the token that decides."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from inspection import readings
from models import tiny
from regard.errors import UserError
from regard.inspection.reading import Reading
from regard.inspection.saliency import saliency
from regard.models.recurrent import RecurrentConfig, build

LABELS = ("good", "bad", "neither")


def classifier(name: str) -> Reading:
    if name == "vit":
        return readings.make("vit")
    if name == "gru":
        torch.manual_seed(0)
        config = RecurrentConfig(
            kind="classifier", cell="gru", d_model=8, vocab_size=tiny.VOCAB, labels=LABELS, pad_id=0
        )
        return Reading(tiny.shaken(build(config)), source=readings.make("bert").source)
    options: dict[str, Any] = {"head": "classify"} if name in tiny.DECODERS else {"heads": ("classify",)}
    return replace(readings.make(name), model=tiny.make(name, labels=LABELS, **options))


NAMES = ["bert", "gpt2", "llama", "gru", "vit"]


@pytest.mark.parametrize("name", NAMES)
def test_integrated_gradients_add_up_to_the_change(name: str) -> None:
    found = saliency(classifier(name), steps=200)
    change = torch.tensor(found.probability).log() - torch.tensor(found.base).log()
    assert found.error is not None
    assert found.error < 2e-3
    assert float(found.values.sum()) == pytest.approx(float(change), abs=3e-3)


def test_more_steps_make_it_more_exact() -> None:
    coarse, fine = (saliency(classifier("bert"), steps=steps).error for steps in (1, 100))
    assert coarse is not None
    assert fine is not None
    assert fine < coarse / 10


@pytest.mark.parametrize(
    ("name", "method"), [("gru", "gradient"), ("gru", "integrated"), ("gru", "occlusion"), ("bert", "occlusion")]
)
def test_all_methods_find_the_word_that_decides(name: str, method: Any) -> None:
    """One token is loud, and the others whisper."""
    reading = classifier(name)
    embed: Any = reading.model.encoder.embed
    table = embed.weight if name == "gru" else embed.token.weight
    with torch.no_grad():
        table *= 0.05
        table[7] *= 100
    found = saliency(reading, method=method)
    inner = found.values[1:-1].abs()
    assert reading.source is not None
    assert int(inner.argmax()) + 1 == reading.source.ids.index(7)


def test_occlusion_is_the_loss_without_the_token() -> None:
    reading = classifier("bert")
    found = saliency(reading, method="occlusion")
    assert reading.source is not None
    ids = list(reading.source.ids)
    ids[3] = reading.model.config.pad_id
    without = replace(reading, source=replace(reading.source, ids=tuple(ids)))
    with torch.no_grad():
        whole, rest = (each.run().logits[0].log_softmax(-1) for each in (reading, without))
    at = LABELS.index(found.label)
    assert float(found.values[3]) == pytest.approx(float(whole[at] - rest[at]), abs=1e-5)


def test_special_tokens_stay_in_the_base() -> None:
    found = saliency(classifier("bert"), method="integrated")
    assert found.values[0] == found.values[-1] == 0


def test_a_label_can_be_named() -> None:
    reading = classifier("gpt2")
    assert saliency(reading, "bad", method="gradient").label == "bad"
    with pytest.raises(UserError, match=r"no label 'ugly'\n  its labels are good, bad, neither"):
        saliency(reading, "ugly")


def test_models_that_do_not_classify_are_refused() -> None:
    with pytest.raises(UserError, match="for models that classify"):
        saliency(readings.make("gpt2"))
    with pytest.raises(UserError, match="at least 1"):
        saliency(classifier("bert"), steps=0)


def test_it_can_be_drawn_and_nothing_stays_behind() -> None:
    reading = classifier("bert")
    found = saliency(reading)
    assert "integrated, off by" in found.title
    assert found.to_dict()["error"] == found.error
    assert found.svg()
    assert not any(module._forward_hooks for module in reading.model.modules())
    assert all(parameter.grad is None for parameter in reading.model.parameters())
