"""`verify` passes on honest models, and each broken promise is caught by its own name alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.decoding import beam
from regard.lab import verify as lab
from regard.layers import attention, mask, state
from regard.models.base import Model
from regard.models.registry import find_preset
from regard.training import checkpoint

SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2}
IDS: dict[str, Any] = {"vocab_size": 60, "pad_id": 59, "start_id": 59}
MODELS: dict[str, dict[str, Any]] = {
    "transformer-small": {**SMALL, **IDS, "n_decoder_layers": 2},
    "t5-small": {**SMALL, "vocab_size": 60, "d_head": 8},
    "gpt2": {**SMALL, "vocab_size": 60, "max_len": 32, "bos_id": 1, "eos_ids": (2,)},
    "smollm2-135m": {**SMALL, "vocab_size": 60, "n_kv_heads": 1},
    "bert-base": {**SMALL, "vocab_size": 60},
    "vit-tiny": {**SMALL, "image_size": (32, 32)},
    "recurrent-gru-additive": {"d_model": 16, **IDS},
    "recurrent-lstm-lm": {"d_model": 16, **IDS},
}


def make(name: str) -> Model:
    torch.manual_seed(0)
    family, config = find_preset(name)
    return family.build(replace(config, **MODELS[name]))


@pytest.mark.parametrize("name", MODELS)
def test_honest_models_pass_every_check(name: str) -> None:
    rows = lab.verify(make(name))
    assert [row.name for row in rows if not row.passed] == []
    assert sum(row.difference is not None for row in rows) >= 3


def mutate_cache(patch: pytest.MonkeyPatch) -> None:
    honest = state.KeyValueState.append

    def forgetful(self: Any, layer: int, k: torch.Tensor, v: torch.Tensor) -> Any:
        keys, values = honest(self, layer, k, v)
        return keys * 0.9 if keys.size(2) > 3 else keys, values

    patch.setattr(state.KeyValueState, "append", forgetful)


def mutate_causal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attention.Mask, "is_plain_causal", property(lambda self: False))
    honest = mask.Mask._build

    def leaky(self: Any, n_queries: int, n_keys: int, device: Any) -> Any:
        allowed = honest(self, n_queries, n_keys, device)
        return allowed if not self.causal or allowed is None else allowed | torch.ones_like(allowed)

    patch.setattr(mask.Mask, "_build", leaky)


def mutate_beam(patch: pytest.MonkeyPatch) -> None:
    honest = lab.beam_search

    def wrong(*args: Any, **options: Any) -> Any:
        found = honest(*args, **options)
        return [[replace(best[0], ids=(*best[0].ids, 5))] for best in found]

    patch.setattr(lab, "beam_search", wrong)


def mutate_readable(patch: pytest.MonkeyPatch) -> None:
    honest = attention.readable
    patch.setattr(attention, "readable", lambda *a, **o: tuple(x * 1.1 for x in honest(*a, **o)))


def mutate_save(patch: pytest.MonkeyPatch) -> None:
    honest = lab.load_model

    def bent(*args: Any, **options: Any) -> Any:
        model = honest(*args, **options)
        with torch.no_grad():
            next(model.parameters())[0] += 1e-2
        return model

    patch.setattr(lab, "load_model", bent)


def mutate_step(patch: pytest.MonkeyPatch) -> None:
    honest = lab.step

    def mean_of_means(model: Any, batches: Any, objective: Any, optimizer: Any, **options: Any) -> Any:
        from regard.objectives.loss import Loss

        def scaled(model: Any, batch: Any) -> Loss:
            loss, count = objective(model, batch), sum(b.n_targets for b in batches)
            return Loss(loss.total * (count / batch.n_targets / len(batches)), loss.count)

        return honest(model, batches, scaled, optimizer, **options)

    patch.setattr(lab, "step", mean_of_means)


def mutate_resume(patch: pytest.MonkeyPatch) -> None:
    honest = checkpoint.moments_of
    patch.setattr(checkpoint, "moments_of", lambda m, o: {k: v * 0 for k, v in honest(m, o).items()})


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "cached = uncached": mutate_cache,
    "causal": mutate_causal,
    "beam 1 = greedy": mutate_beam,
    "fused = readable": mutate_readable,
    "saved = loaded": mutate_save,
    "accumulated = whole": mutate_step,
    "resumed = uninterrupted": mutate_resume,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_broken_promise_is_caught_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("transformer-small")
    MUTANTS[name](monkeypatch)
    failed = [row.name for row in lab.verify(model) if not row.passed]
    related = {"causal": {"cached = uncached", "ours = transformers", "fused = readable"}}
    assert name in failed
    assert set(failed) - related.get(name, set()) == {name}


def test_a_row_that_is_no_number_does_not_pass() -> None:
    assert not lab.Row("x", float("nan"), 1.0).passed
    assert lab.Row("x", None, 0.0).passed
    assert beam is not None
