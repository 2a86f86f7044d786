"""What stands in a file beside what we read of it. transformers reads it too, so what differs is another model."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor

from faults.refusal import refused
from parity import tiny
from regard.errors import UserError
from regard.layers.position import sinusoids
from regard.weights.store import load_model
from weights.checkpoints import change_json

Tensors = dict[str, Tensor]
POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))
TABLES = tuple(f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))

COPIES = [
    ("llama grouped, tied, biases", "lm_head.weight", "model.embed_tokens.weight"),
    ("qwen2", "lm_head.weight", "model.embed_tokens.weight"),
    ("gpt2", "lm_head.weight", "transformer.wte.weight"),
    ("gpt", "lm_head.weight", "transformer.tokens_embed.weight"),
    ("bert masked lm, relu", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ("bert masked lm, relu", "cls.predictions.decoder.bias", "cls.predictions.bias"),
    ("roberta masked lm", "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
    ("roberta masked lm", "lm_head.decoder.bias", "lm_head.bias"),
    ("electra generator", "generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"),
    ("distilbert masked lm", "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
    *(
        (name, copy, "model.shared.weight")
        for name in ("bart", "marian", "pegasus")
        for copy in (*TABLES, "lm_head.weight")
    ),
    ("marian, swish, own tables", "lm_head.weight", "model.decoder.embed_tokens.weight"),
    *(("t5", copy, "shared.weight") for copy in ("encoder.embed_tokens.weight", "lm_head.weight")),
    ("t5 v1.1", "decoder.embed_tokens.weight", "shared.weight"),
]


def opened(name: str, folder: Path, change: Callable[[Tensors], None]) -> torch.nn.Module:
    """Their model as they save it, opened here after `change`."""
    torch.manual_seed(0)
    cls, config = tiny.ALL[name]
    getattr(hf, cls)(config).save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return load_model(folder)


def add(name: str, tensor: Callable[[Tensors], Tensor]) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.update({name: tensor(tensors)})


@pytest.mark.parametrize(("name", "copy", "original"), COPIES)
def test_a_copy_is_passed_over_and_what_is_none_is_refused_by_both_names(
    name: str, copy: str, original: str, tmp_path: Path
) -> None:
    expected = opened(name, tmp_path / "alone", lambda tensors: tensors.pop(copy, None) and None)
    found = opened(name, tmp_path / "copied", add(copy, lambda tensors: tensors[original].clone()))
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), expected.parameters(), strict=True))
    with pytest.raises(UserError) as refusal:
        opened(name, tmp_path / "other", add(copy, lambda tensors: tensors[original] + 1e-6))
    assert copy in refusal.value.message
    assert original in refusal.value.message


def test_a_copy_alone_is_taken_for_the_original(tmp_path: Path) -> None:
    def rename(tensors: Tensors) -> None:
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")

    expected = opened("bert masked lm, relu", tmp_path / "original", lambda tensors: None)
    found = opened("bert masked lm, relu", tmp_path / "copy", rename)
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), expected.parameters(), strict=True))


def test_an_untied_file_with_one_table_for_both_sides_is_an_old_one(tmp_path: Path) -> None:
    def old(tensors: Tensors) -> None:
        for table in TABLES:
            del tensors[table]

    model = opened("bart untied", tmp_path, old)
    shared = load_file(tmp_path / "model.safetensors")["model.shared.weight"]
    assert torch.equal(model.encoder.embed.token.weight, shared)
    assert torch.equal(model.decoder.embed.token.weight, shared)


@pytest.mark.parametrize("name", ["marian", "pegasus"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_positions_in_the_file_must_be_the_sinusoids(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    table = sinusoids(tiny.LENGTH, 16, interleaved=False).to(dtype)
    opened(name, tmp_path / "good", lambda tensors: tensors.update({place: table.clone() for place in POSITIONS}))
    with pytest.raises(UserError, match="sinusoids"):
        opened(name, tmp_path / "own", add(POSITIONS[0], lambda tensors: torch.zeros_like(table)))


@pytest.mark.parametrize("name", ["marian", "pegasus"])
@pytest.mark.parametrize("n", [1, tiny.LENGTH + 1, 2**24])
def test_as_many_positions_as_the_configuration_says_are_in_the_file_or_it_is_refused(
    name: str, n: int, tmp_path: Path
) -> None:
    table = sinusoids(tiny.LENGTH, 16, interleaved=False)
    opened(name, tmp_path, lambda tensors: tensors.update({place: table.clone() for place in POSITIONS}))
    change_json(tmp_path / "config.json", max_position_embeddings=n)
    with refused(f"embed_positions.weight has shape [{tiny.LENGTH}, 16], expected [{n}, 16]", seconds=5):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["llama", "bert masked lm, relu"])
def test_layers_beyond_those_of_the_configuration_are_refused(name: str, tmp_path: Path) -> None:
    opened(name, tmp_path, lambda tensors: None)
    change_json(tmp_path / "config.json", num_hidden_layers=1)
    with pytest.raises(UserError, match=r"layers?\.1\.[\w.]+ is not part of the model"):
        load_model(tmp_path)


def test_a_bias_that_the_configuration_denies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"q_proj\.bias is not part of the model"):
        opened("llama", tmp_path, add("model.layers.0.self_attn.q_proj.bias", lambda tensors: torch.ones(16)))


@pytest.mark.parametrize("change", [{"rope_theta": 77.0}, {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}])
def test_rotary_settings_that_contradict_each_other_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    opened("llama", tmp_path, lambda tensors: None)
    change_json(tmp_path / "config.json", **change)
    with pytest.raises(UserError, match=f"{next(iter(change))} contradicts rope_parameters"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["vit bare, no bias", "deit bare"])
def test_an_activation_of_the_pooler_that_we_do_not_have_is_refused(name: str, tmp_path: Path) -> None:
    opened(name, tmp_path, lambda tensors: None)
    change_json(tmp_path / "config.json", pooler_act="relu")
    with pytest.raises(UserError, match="pooler_act"):
        load_model(tmp_path)
