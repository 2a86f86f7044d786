"""An adapter adds nothing before it has learnt, learns alone, and is gone when merged but for what it learnt."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.testing import assert_close

from faults.refusal import refused
from models import tiny
from models.test_properties import named, random_ids
from regard.config import build, to_dict
from regard.layers.int8 import Int8Weight
from regard.layers.linear import Linear
from regard.layers.lora import LoraConfig, adapted, add_adapters, merge, trainable
from regard.models.registry import FAMILIES
from regard.weights.store import load_model, save_model
from weights.checkpoints import bits

CLOSE = {"rtol": 0.0, "atol": 1e-5}
BLOCK = ("q", "k", "v", "o", "up", "down", "gate")


def targets_of(model: nn.Module) -> tuple[str, ...]:
    """All linear layers of its blocks."""
    return tuple({name.rpartition(".")[2]: 0 for name, part in model.named_modules() if isinstance(part, Linear)})


def inputs_of(name: str) -> tuple[Tensor, ...]:
    if name in tiny.IMAGES:
        return (torch.randn(2, 3, 12, 16, generator=torch.Generator().manual_seed(0)),)
    ids = random_ids(0, 2, 7)
    return (ids, ids.flip(1)) if name in tiny.SEQ2SEQ else (ids,)


@torch.no_grad()
def outputs(model: Any, name: str) -> dict[str, Tensor]:
    return named(model(*inputs_of(name)))


def learnt(model: nn.Module) -> None:
    """As after training: nothing that can be trained is what it was."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in trainable(model).values():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def adapted_gpt(**settings: Any) -> Any:
    model = tiny.make("gpt2")
    add_adapters(model, LoraConfig(**{"rank": 2, "targets": ("q", "v")} | settings))
    return model


# Before, while and after it learns


@pytest.mark.parametrize("name", tiny.ALL)
def test_at_first_every_output_is_the_same_to_the_last_bit_and_so_are_all_names(name: str) -> None:
    model = tiny.make(name)
    before, tensors = outputs(model, name), dict(model.state_dict())
    add_adapters(model, LoraConfig(rank=3, dropout=0.5, targets=targets_of(model)))
    assert {*targets_of(model)} <= {*BLOCK}
    assert all(torch.equal(value, before[key]) for key, value in outputs(model, name).items())
    after = dict(model.state_dict())
    assert all(after.pop(key).data_ptr() == tensor.data_ptr() for key, tensor in tensors.items())
    assert {*after} == {*trainable(model)} == {f"{key}.lora_{letter}" for key in adapted(model) for letter in "ab"}


@pytest.mark.parametrize("name", tiny.ALL)
def test_merged_equals_unmerged_in_every_family_and_nothing_of_it_is_left(name: str) -> None:
    model = tiny.make(name)
    before, kinds, keys = outputs(model, name), list(map(type, model.modules())), list(model.state_dict())
    add_adapters(model, LoraConfig(rank=3, alpha=5.0, targets=targets_of(model)))
    learnt(model)
    unmerged = outputs(model, name)
    assert any((value - before[key]).abs().max() > 1e-2 for key, value in unmerged.items())
    merge(model)
    for key, value in outputs(model, name).items():
        assert_close(value, unmerged[key], **CLOSE)
    assert list(map(type, model.modules())) == kinds
    assert list(model.state_dict()) == keys == list(trainable(model))
    left = {key for part in model.modules() if isinstance(part, nn.Linear) for key in vars(part)}
    assert left == vars(nn.Linear(1, 1)).keys()


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "bert"])
def test_a_merged_model_is_joined_saved_and_opened_like_any_other(name: str, tmp_path: Path) -> None:
    model = tiny.make(name)
    add_adapters(model, LoraConfig(targets=targets_of(model)))
    learnt(model)
    merge(model)
    expected = outputs(model, name)
    save_model(model, tmp_path)
    for again in (load_model(tmp_path).fuse(), model.fuse()):
        for key, value in outputs(again, name).items():
            assert_close(value, expected[key], **CLOSE)


def test_recurrent_networks_learn_where_they_have_linear_layers() -> None:
    config = FAMILIES["recurrent"].presets["recurrent-lstm-additive"]
    model = FAMILIES["recurrent"].build(replace(config, vocab_size=13, d_model=8, pad_id=12, start_id=12))
    names = {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    ids = torch.randint(0, 12, (2, 5))
    add_adapters(model.eval(), LoraConfig(rank=2, targets=tuple(names)))
    learnt(model)
    unmerged = model(ids, ids).logits
    merge(model)
    assert_close(model(ids, ids).logits, unmerged, **CLOSE)


def test_what_is_frozen_gets_no_gradient_and_keeps_its_bits_while_the_loss_falls() -> None:
    model = tiny.make("bert tasks").train()
    add_adapters(model, LoraConfig(rank=4, targets=("q", "v", "up"), whole=("heads.classify",)))
    learning, before = trainable(model), {key: value.clone() for key, value in model.state_dict().items()}
    assert {key for key in learning if "lora" not in key} == {"heads.classify.weight", "heads.classify.bias"}
    optimizer = torch.optim.AdamW(learning.values(), lr=1e-2)
    ids, labels, losses = random_ids(0, 6, 9), torch.tensor([0, 1, 2, 0, 1, 2]), []
    for _ in range(30):
        torch.manual_seed(0)
        loss = nn.functional.cross_entropy(model(ids).heads["classify"], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    for key, parameter in model.named_parameters():
        assert (parameter.grad is None) is (key not in learning), key
        assert (bits(parameter.detach()) == bits(before[key])) is (key not in learning), key


def test_it_is_scaled_by_alpha_over_rank_and_starts_as_a_fresh_layer_does() -> None:
    torch.manual_seed(0)
    model, x = nn.ModuleDict({"q": Linear(64, 16)}), torch.randn(5, 64)
    layer, before = model["q"], model["q"](x)
    add_adapters(model, LoraConfig(rank=8, alpha=4.0, targets=("q",)))
    assert layer.lora_a.abs().max() <= 64**-0.5
    assert layer.lora_a.std() > 0.9 * (64 * 3) ** -0.5
    learnt(model)
    assert_close(layer(x), before + 0.5 * x @ layer.lora_a.T @ layer.lora_b.T, **CLOSE)


def test_dropout_is_a_function_of_the_seed_and_rests_while_the_model_is_read() -> None:
    model = adapted_gpt(dropout=0.5)
    learnt(model)
    reading = outputs(model, "gpt2")["logits"]
    assert torch.equal(outputs(model, "gpt2")["logits"], reading)
    model.train()  # the tiny GPT has no other dropout
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(outputs(model, "gpt2")["logits"])
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], reading)


def test_the_state_of_a_training_is_restored_by_name() -> None:
    model, again = adapted_gpt(), adapted_gpt()
    learnt(model)
    again.load_state_dict(model.state_dict())
    assert torch.equal(outputs(again, "gpt2")["logits"], outputs(model, "gpt2")["logits"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_adapters_have_the_type_of_their_weights_and_are_added_in_float(dtype: torch.dtype) -> None:
    model = tiny.make("gpt2").to(dtype)
    add_adapters(model, LoraConfig(targets=("up",)))
    learnt(model)
    layer = model.decoder.blocks[0].ffn.up
    assert layer.lora_a.dtype == outputs(model, "gpt2")["logits"].dtype == dtype
    exact = layer.weight.double() + 2.0 * layer.lora_b.double() @ layer.lora_a.double()
    merge(model)
    assert layer.weight.dtype == dtype
    assert_close(layer.weight.double(), exact, rtol=2**-8 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)


# Many machines


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of one."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_a_step_under_ddp_and_fsdp_is_a_step(way: str) -> None:
    found = {}
    for spread in (False, True):
        model = adapted_gpt().train()
        learnt(model)
        run: Any = model
        if spread and way == "ddp":
            run = nn.parallel.DistributedDataParallel(model)
        elif spread:
            for part in [*model.decoder.blocks, model]:
                fully_shard(part, mesh=distributed.init_device_mesh("cpu", (1,)))
        optimizer = torch.optim.SGD(trainable(model).values(), lr=0.1)
        run(random_ids(0, 2, 7)).logits.square().mean().backward()
        optimizer.step()
        whole = {
            key: value.full_tensor() if way == "fsdp" and spread else value for key, value in model.state_dict().items()
        }
        found[spread] = {key: value.detach().clone() for key, value in whole.items()}
    assert found[True].keys() == found[False].keys()
    for key, value in found[False].items():
        assert_close(found[True][key], value, **CLOSE)


# What is refused


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 0}, ["rank is 0", "for example 8"]),
        ({"rank": 10**9}, ["rank is 1000000000"]),
        ({"alpha": 0.0}, ["alpha is 0.0"]),
        ({"alpha": float("inf")}, ["alpha is inf"]),
        ({"alpha": float("nan")}, ["alpha is nan"]),
        ({"dropout": 1.0}, ["dropout is 1.0"]),
        ({"targets": ()}, ["no targets", '["q", "v"]']),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], words: list[str]) -> None:
    with refused(*words):
        LoraConfig(**settings)


def test_settings_come_from_a_file_and_go_back() -> None:
    config = LoraConfig(rank=4, targets=("q", "down"), whole=("pooler",))
    assert build(LoraConfig, to_dict(config)) == config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"targets": ("q", "gate")}, ["unknown linear layer 'gate'", "down, k, o, q, up, v"]),
        ({"targets": ("query",)}, ["unknown linear layer 'query'"]),
        ({"whole": ("heads",)}, ["unknown part of the model 'heads'"]),
        ({"whole": ("decoder.embd",)}, ["did you mean 'decoder.embed'?"]),
        ({"whole": ("decoder.blocks.0",)}, ["2 layers are targets and trained whole"]),
    ],
)
def test_layers_that_are_not_there_are_refused_by_name_and_nothing_changes(
    settings: dict[str, Any], words: list[str]
) -> None:
    model = tiny.make("gpt2")
    with refused(*words):
        add_adapters(model, LoraConfig(**{"targets": ("q", "v")} | settings))
    assert not adapted(model)
    assert len(trainable(model)) == len(model.state_dict())


def test_a_model_with_adapters_is_not_joined_not_saved_and_gets_no_second_ones(tmp_path: Path) -> None:
    model = adapted_gpt()
    for action in (model.fuse, lambda: save_model(model, tmp_path / "new"), lambda: add_adapters(model, LoraConfig())):
        with refused("4 layers with adapters", "merge(model)"):
            action()
    assert not (tmp_path / "new").exists()


def test_eight_bits_learn_nothing(tmp_path: Path) -> None:
    save_model(tiny.make("gpt2"), tmp_path)
    with refused("fewer bits", "fp32"):
        add_adapters(load_model(tmp_path, dtype=Int8Weight), LoraConfig())
