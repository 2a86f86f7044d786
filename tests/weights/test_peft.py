"""Adapters of PEFT open here and ours open there, with the same numbers; what is not plain LoRA is refused by name."""

import json
import shutil
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers as hf
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.testing import assert_close

import regard
from faults.refusal import refused
from layers.test_lora import learnt, targets_of
from models import tiny as our_tiny
from parity import tiny
from parity.test_transformers import CLOSE, inputs_of, make_theirs, real, run_ours, run_theirs
from regard.cli.main import run
from regard.layers.int8 import Int8Weight
from regard.layers.lora import LoraConfig, adapted, add_adapters, trainable
from regard.models.base import Model
from regard.models.registry import FAMILIES
from regard.weights import hub
from regard.weights.peft import load_adapter, save_adapter
from regard.weights.precision import bytes_of
from regard.weights.store import home_of, load_model, save_model
from tasks import generators
from weights import gguf_files
from weights.checkpoints import bits, change_json

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:.*fan_in_fan_out:UserWarning"),  # PEFT corrects what its own default says
]
ALIKE = ("relu", "silu", "untied", "next", "gelu", "wide embedding", "linear", "scaled")
NAMES = [name for name in tiny.ALL if name not in tiny.IMAGES and not any(word in name for word in ALIKE)]
"Not those that differ from another only where no adapter can be."
HEADS = {"classification": ("heads.classify", "pooler"), "tags": ("heads.tag",), "span": ("heads.span",)}


def save_base(name: str, directory: Path) -> Any:
    theirs = make_theirs(name)
    theirs.save_pretrained(directory)
    return theirs


def train(model: Model, name: str, steps: int = 3) -> None:
    """A few honest steps, after which nothing that can be trained is what it was."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(trainable(model).values(), lr=0.05)
    for _ in range(steps):
        out = model.train()(**inputs_of(name))
        optimizer.zero_grad()
        out.logits.square().mean().backward()
        optimizer.step()
    model.eval()


def heads_of(model: Model) -> tuple[str, ...]:
    parts = dict(model.named_modules())
    return tuple(name for name in ("heads.classify", "heads.tag", "heads.span", "pooler", "classify") if name in parts)


def adapted_model(name: str, directory: Path, **settings: Any) -> Model:
    """Theirs saved in `directory`, opened here and trained."""
    save_base(name, directory)
    model = load_model(directory)
    add_adapters(
        model, LoraConfig(**{"rank": 3, "alpha": 5.0, "dropout": 0.1, "targets": targets_of(model)} | settings)
    )
    train(model, name)
    return model


def opened_by_peft(name: str, base: Path, adapter: Path, **options: Any) -> Any:
    cls = getattr(hf, tiny.ALL[name][0])
    return peft.PeftModel.from_pretrained(cls.from_pretrained(base, **options), str(adapter)).eval()


def make_peft(name: str, directory: Path, **settings: Any) -> Any:
    """An adapter that PEFT made, with random A and B, saved in `directory` with its base beside it."""
    theirs = save_base(name, directory / "base")
    torch.manual_seed(0)
    defaults = {"r": 4, "lora_alpha": 6, "target_modules": "all-linear", "init_lora_weights": False}
    model = peft.get_peft_model(theirs, peft.LoraConfig(**defaults | settings)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" in key or "modules_to_save" in key:
                parameter.normal_(std=0.1)
    model.save_pretrained(directory / "adapter")
    change_json(directory / "adapter/adapter_config.json", base_model_name_or_path=str(directory / "base"))
    return model


def assert_same_outputs(name: str, ours: Model, theirs: Any) -> None:
    inputs = inputs_of(name)
    mine, (other, _) = run_ours(ours, inputs)[0], run_theirs(theirs, name, inputs)
    assert other
    for key, value in other.items():
        assert_close(real(mine[key], inputs), real(value, inputs), **CLOSE, msg=lambda m, k=key: f"{k}: {m}")


def assert_changed(name: str, model: Model, base: Path) -> None:
    before, after = (run_ours(each, inputs_of(name))[0]["logits"] for each in (load_model(base), model))
    assert (after - before).abs().max() > 1e-2


# Ours there, theirs here


@pytest.mark.parametrize("name", NAMES)
def test_what_we_train_gives_the_same_numbers_in_peft_and_back_here_merged_or_not(name: str, tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    ours = adapted_model(name, base)
    assert_changed(name, ours, base)
    save_adapter(ours, adapter, base)
    assert_same_outputs(name, ours, opened_by_peft(name, base, adapter))
    again = load_model(base)
    load_adapter(again, adapter)
    expected = run_ours(ours, inputs_of(name))[0]
    for each in (again, load_model(adapter)):
        for key, value in run_ours(each, inputs_of(name))[0].items():
            assert_close(value, expected[key], **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_what_peft_trains_gives_the_same_numbers_here_merged_or_not(name: str, tmp_path: Path) -> None:
    theirs = make_peft(name, tmp_path)
    ours = load_model(tmp_path / "base")
    load_adapter(ours, tmp_path / "adapter")
    assert_changed(name, ours, tmp_path / "base")
    assert_same_outputs(name, ours, theirs)
    assert_same_outputs(name, load_model(tmp_path / "adapter"), theirs)


@pytest.mark.parametrize(
    "name", ["llama grouped, tied, biases", "bert classification", "t5 v1.1", "marian", "roberta tags"]
)
def test_what_was_read_is_written_with_the_same_bits(name: str, tmp_path: Path) -> None:
    make_peft(name, tmp_path)
    model = load_model(tmp_path / "base")
    load_adapter(model, tmp_path / "adapter")
    save_adapter(model, tmp_path / "again", tmp_path / "base")
    one, two = (load_file(tmp_path / each / "adapter_model.safetensors") for each in ("adapter", "again"))
    assert one.keys() == two.keys()
    assert all(bits(one[key]) == bits(two[key]) for key in one)


PATTERNS = {
    "rank_pattern": {"v_proj": 2, "layers.0.self_attn.k_proj": 5},
    "alpha_pattern": {"q_proj": 3.5, "^model.layers.1.mlp.up_proj": 9},
}


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj", "v_proj"]},
        {"target_modules": r".*\.layers\.1\..*(q_proj|down_proj)"},
        {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1]},
        {"target_modules": ["q_proj", "up_proj"], "exclude_modules": ["layers.0.mlp.up_proj"]},
        {"use_rslora": True},
        PATTERNS,
        PATTERNS | {"use_rslora": True},
        {"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]},
        {"modules_to_save": ["embed_tokens", "lm_head", "norm"], "task_type": "CAUSAL_LM"},
        {"lora_dropout": 0.5},
        {"init_lora_weights": "gaussian"},
    ],
    ids=str,
)  # fmt: skip
def test_the_settings_of_plain_lora_are_understood(settings: dict[str, Any], tmp_path: Path) -> None:
    theirs = make_peft("llama", tmp_path, **settings)
    assert_same_outputs("llama", load_model(tmp_path / "adapter"), theirs)
    ours = load_model(tmp_path / "base")
    load_adapter(ours, tmp_path / "adapter")
    assert_same_outputs("llama", ours, theirs)
    save_adapter(ours, tmp_path / "again", tmp_path / "base")
    assert_same_outputs("llama", ours, opened_by_peft("llama", tmp_path / "base", tmp_path / "again"))


@pytest.mark.parametrize("targets", [("q",), ("k", "v"), ("v", "o"), ("q", "k", "v", "down")], ids=str)
@pytest.mark.parametrize("name", ["gpt2", "gpt2 bare", "gpt"])
def test_the_three_in_one_matrix_of_gpt2_are_written_as_one_adapter_whichever_are_trained(
    name: str, targets: tuple[str, ...], tmp_path: Path
) -> None:
    ours = adapted_model(name, tmp_path / "base", targets=targets)
    save_adapter(ours, tmp_path / "adapter", tmp_path / "base")
    assert_same_outputs(name, ours, opened_by_peft(name, tmp_path / "base", tmp_path / "adapter"))
    assert_same_outputs(
        name, load_model(tmp_path / "adapter"), opened_by_peft(name, tmp_path / "base", tmp_path / "adapter")
    )


# Heads


@pytest.mark.parametrize("name", [name for name in NAMES if any(kind in name for kind in HEADS)])
def test_a_head_that_is_trained_whole_goes_along(name: str, tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    save_base(name, base)
    model = load_model(base)
    add_adapters(model, LoraConfig(rank=2, targets=("q",), whole=heads_of(model)))
    learnt(model)
    save_adapter(model, adapter, base)
    assert_same_outputs(name, model, opened_by_peft(name, base, adapter))
    assert_same_outputs(name, load_model(adapter), opened_by_peft(name, base, adapter))


@pytest.mark.parametrize("name", ["distilbert classification", "roberta classification", "electra classification"])
def test_half_a_head_is_written_whole(name: str, tmp_path: Path) -> None:
    """PEFT takes all that is called a classifier, trained or not."""
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    model = adapted_model(name, base, whole=("heads.classify",))
    save_adapter(model, adapter, base)
    assert_same_outputs(name, model, opened_by_peft(name, base, adapter))


BODIES = {"bert": "bert pre-training", "roberta": "roberta masked lm", "distilbert": "distilbert bare"}
BODIES |= {"electra": "electra bare", "gpt2": "gpt2", "llama": "llama"}
TASKS = {"classification": "SEQ_CLS", "tags": "TOKEN_CLS", "span": "QUESTION_ANS"}


@pytest.mark.parametrize("name", [n for n in NAMES if any(kind in n for kind in HEADS) and "bert span" not in n])
def test_an_adapter_brings_its_head_to_a_model_without_one(name: str, tmp_path: Path) -> None:
    """The usual adapter for classes: its base on the hub is a model for words, and the head is in the adapter."""
    family, kind = name.split(" ")
    save_base(BODIES[family], tmp_path / "base")
    if family == "llama":  # which has none, and classifies by the last token that is real
        change_json(tmp_path / "base/config.json", pad_token_id=0)
    cls, _ = tiny.ALL[name]
    labels = {} if kind == "span" else {"num_labels": 3}
    body = getattr(hf, cls).from_pretrained(tmp_path / "base", **labels)
    settings = {
        "init_lora_weights": False,
        "target_modules": r".*(query|q_lin|c_attn|q_proj)",
        "task_type": TASKS[kind],
    }
    theirs = peft.get_peft_model(body, peft.LoraConfig(**settings)).eval()
    theirs.save_pretrained(tmp_path / "adapter")
    change_json(tmp_path / "adapter/adapter_config.json", base_model_name_or_path=str(tmp_path / "base"))
    ours = load_model(tmp_path / "adapter")
    assert len(ours.config.labels) == (0 if kind == "span" else 3)
    assert_same_outputs(name, ours, theirs)
    assert load_model(tmp_path / "adapter", device="meta").config == ours.config
    if kind != "span":
        (tmp_path / "adapter/labels.json").write_text('{"0": "x", "1": "y", "2": "z"}')
        assert load_model(tmp_path / "adapter").config.labels == ("x", "y", "z")


def test_names_of_labels_go_with_an_adapter(tmp_path: Path) -> None:
    model = adapted_model("bert classification", tmp_path / "base")
    save_adapter(model, tmp_path / "adapter", tmp_path / "base")
    names = json.loads((tmp_path / "adapter/labels.json").read_text())
    assert tuple(names.values()) == model.config.labels
    assert list(names) == [str(i) for i in range(len(names))]


# Opening an adapter's directory


def adapter_of_llama(tmp_path: Path) -> Path:
    generators.save(tmp_path / "base", generators.model())
    model = load_model(tmp_path / "base")
    add_adapters(model, LoraConfig(targets=targets_of(model)))
    learnt(model)
    save_adapter(model, tmp_path / "adapter", tmp_path / "base")
    return tmp_path / "adapter"


def test_every_verb_takes_an_adapter_for_the_merged_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter, merged = adapter_of_llama(tmp_path), tmp_path / "merged"
    assert run(["convert", str(adapter), str(merged)]) == 0
    assert {path.name for path in merged.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
    ids = torch.arange(5)[None]
    assert_close(load_model(adapter)(ids).logits, load_model(merged)(ids).logits, rtol=0, atol=0)
    theirs = hf.LlamaForCausalLM.from_pretrained(merged)(input_ids=ids).logits
    assert_close(load_model(merged)(ids).logits, theirs, **CLOSE)
    prompt = "the cat"
    assert regard.load(adapter)(prompt).text == regard.load(merged)(prompt).text
    capsys.readouterr()
    for verb in (["summary", adapter, "--json"], ["verify", adapter], ["tokenize", "--model", adapter, "the cat"]):
        assert run(list(map(str, verb))) == 0
        assert capsys.readouterr().out
    assert bytes_of(adapter) == bytes_of(tmp_path / "base")


def test_in_eight_bits_an_adapter_is_its_merged_model_to_the_last_bit(tmp_path: Path) -> None:
    adapter = adapter_of_llama(tmp_path)
    save_model(load_model(adapter), tmp_path / "merged")
    one, two = (load_model(each, dtype=Int8Weight) for each in (adapter, tmp_path / "merged"))
    ids = torch.arange(5)[None]
    assert torch.equal(one.fuse()(ids).logits, two.fuse()(ids).logits)
    exact = load_model(adapter)(ids).logits
    assert (one(ids).logits - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, None], ids=str)
def test_an_adapter_opens_in_the_type_that_is_asked_for(tmp_path: Path, dtype: torch.dtype | None) -> None:
    adapter = adapter_of_llama(tmp_path)
    model, exact = load_model(adapter, dtype=dtype), load_model(adapter)
    wanted = dtype or torch.float32
    assert {parameter.dtype for parameter in model.parameters()} == {wanted}
    for (key, value), other in zip(model.state_dict().items(), exact.state_dict().values(), strict=True):
        assert_close(value.float(), other, rtol=2**-7, atol=2**-7, msg=lambda m, k=key: f"{k}: {m}")


def test_the_tokenizer_and_the_card_of_an_adapter_replace_those_of_its_model(tmp_path: Path) -> None:
    adapter = adapter_of_llama(tmp_path)
    generators.talker("{{ 'new' }}").save(adapter)
    (adapter / "README.md").write_text("the adapter's card")
    assert regard.load(adapter).tokenizer.chat_template == "{{ 'new' }}"
    assert run(["convert", str(adapter), str(tmp_path / "merged")]) == 0
    assert (tmp_path / "merged/README.md").read_text() == "the adapter's card"
    assert regard.load(tmp_path / "merged").tokenizer.chat_template == "{{ 'new' }}"


def test_the_model_may_be_a_bundled_name_or_one_of_the_hub_that_is_written_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm_dir: Path
) -> None:
    model = load_model(minilm_dir)
    add_adapters(model, LoraConfig(rank=2))
    save_adapter(model, tmp_path / "small", "minilm")
    assert home_of(tmp_path / "small") == minilm_dir
    assert regard.load(tmp_path / "small")(["a", "b"]).shape == regard.load("minilm")(["a", "b"]).shape
    adapter = adapter_of_llama(tmp_path)
    change_json(adapter / "adapter_config.json", base_model_name_or_path="hf:owner/name", revision="v1")
    asked = []

    def download(name: str, revision: str | None, **_: Any) -> str:
        asked.append((name, revision))
        return str(tmp_path / "base")

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert load_model(adapter).n_parameters == load_model(tmp_path / "base").n_parameters
    assert asked == [("owner/name", "v1")]


def test_a_quantised_model_takes_an_adapter_and_becomes_a_directory_with_it(tmp_path: Path) -> None:
    base = tmp_path / "model.gguf"
    gguf_files.write_llama(base, Kind.Q8_0)
    model = load_model(base)
    add_adapters(model, LoraConfig(targets=targets_of(model)))
    learnt(model)
    save_adapter(model, tmp_path / "adapter", base)
    ids = torch.arange(5)[None]
    expected = model(ids).logits
    assert (expected - load_model(base)(ids).logits).abs().max() > 1e-2
    assert run(["convert", str(tmp_path / "adapter"), str(tmp_path / "merged")]) == 0
    for each in (tmp_path / "adapter", tmp_path / "merged"):
        assert_close(load_model(each)(ids).logits, expected, **CLOSE)
        assert regard.load(each).tokenizer.vocab_size == model.config.vocab_size


def test_an_adapter_of_a_vit_with_the_names_of_its_files_opens(tmp_path: Path) -> None:
    model = our_tiny.make("vit", image_size=(12, 12))
    save_model(model, tmp_path / "base")
    a, b = torch.randn(2, 16), torch.randn(16, 2)
    name = "base_model.model.vit.encoder.layer.1.attention.attention.query.lora_{}.weight"
    tmp_path.joinpath("adapter").mkdir()
    save_file({name.format("A"): a, name.format("B"): b}, tmp_path / "adapter/adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "base_model_name_or_path": str(tmp_path / "base")}
    (tmp_path / "adapter/adapter_config.json").write_text(json.dumps(settings))
    before, after = model.state_dict(), load_model(tmp_path / "adapter").state_dict()
    assert [key for key in before if not torch.equal(before[key], after[key])] == ["encoder.blocks.1.attn.q.weight"]
    key = "encoder.blocks.1.attn.q.weight"
    assert_close(after[key], before[key] + 3.0 * b @ a, **CLOSE)


# What is refused


def config_of(adapter: Path, **changes: Any) -> Path:
    change_json(adapter / "adapter_config.json", **changes)
    return adapter / "adapter_config.json"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"peft_type": "ADALORA"}, ["peft_type is 'ADALORA'"]),
        ({"peft_type": None}, ["peft_type is 'None'"]),
        ({"use_dora": True}, ["use_dora = True"]),
        ({"bias": "all"}, ["bias = all"]),
        ({"lora_bias": True}, ["lora_bias = True"]),
        ({"init_lora_weights": "pissa"}, ["init_lora_weights = pissa"]),
        ({"layer_replication": [[0, 2], [1, 2]]}, ["layer_replication"]),
        ({"trainable_token_indices": [1]}, ["trainable_token_indices = [1]"]),
        ({"target_parameters": ["x"]}, ["target_parameters"]),
        ({"alora_invocation_tokens": [1]}, ["alora_invocation_tokens"]),
        ({"of_a_later_version": {"x": 1}}, ["of_a_later_version"]),
        ({"r": 0}, ["rank is 0"]),
        ({"r": 10**12}, ["rank is"]),
        ({"r": "8"}, ["r is '8'", "a whole number"]),
        ({"r": 9}, ["(8, 24), expected (9, 24)"]),
        ({"lora_alpha": "x"}, ["lora_alpha is 'x'"]),
        ({"lora_alpha": 0}, ["alpha is 0"]),
        ({"lora_dropout": 2}, ["dropout is 2"]),
        ({"use_rslora": 1}, ["use_rslora is 1"]),
        ({"rank_pattern": {"(a+)+$": 3}}, ["'(a+)+$' in rank_pattern", "write out the names"]),
        ({"alpha_pattern": {".*q": 3}}, ["'.*q' in rank_pattern or alpha_pattern"]),
        ({"rank_pattern": ["q"]}, ["rank_pattern is ['q']"]),
        ({"base_model_name_or_path": None}, ["there is no model at ''"]),
        ({"base_model_name_or_path": "\0"}, ["no model at"]),
        ({"base_model_name_or_path": "x" * 5000}, ["no model at"]),
    ],
    ids=str,
)
def test_what_is_more_than_plain_lora_is_refused_by_name(
    changes: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    adapter = adapter_of_llama(tmp_path)
    config_of(adapter, **changes)
    with refused(adapter, *words):
        load_model(adapter)


def test_a_bare_name_never_goes_to_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(hub, "snapshot_download", download)
    adapter = adapter_of_llama(tmp_path)
    config_of(adapter, base_model_name_or_path="owner/name")
    for action in (load_model, regard.load):
        with refused("there is no model at 'owner/name'", adapter, "hf:owner/name", "base_model_name_or_path"):
            action(adapter)


def test_an_adapter_of_an_adapter_is_refused_even_of_itself(tmp_path: Path) -> None:
    adapter = adapter_of_llama(tmp_path)
    config_of(adapter, base_model_name_or_path=str(adapter))
    with refused("is an adapter", f"regard convert {adapter}"):
        load_model(adapter)


LAYER, TABLE = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight", "base_model.model.model.embed_tokens"
ONE, TWO = LAYER.format(0, "A"), LAYER.format(0, "B")
EDITS: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "a layer more": ({LAYER.format(9, "A"): torch.ones(8, 16)}, "layers.9.self_attn.q_proj is no linear layer"),
    "a table": ({f"{TABLE}.lora_A.weight": torch.ones(8, 3)}, "embed_tokens is no linear layer"),
    "a table, as PEFT has it": ({f"{TABLE}.lora_embedding_A": torch.ones(8, 3)}, "lora_embedding_A is not part of the"),
    "a magnitude": ({LAYER.format(0, "magnitude"): torch.ones(3)}, "lora_magnitude.weight is not part of the model"),
    "B alone": ({ONE: None}, "lora_B.weight is not part of the model"),
    "A alone": ({TWO: None}, "lora_B.weight has no floats"),
    "another width": ({ONE: torch.ones(8, 17)}, "(8, 17), expected (8, 16)"),
    "whole numbers": ({ONE: torch.ones(8, 16, dtype=torch.int32)}, "has no floats, expected (8, 16)"),
    "a stranger": ({"base_model.model.foo": torch.ones(3)}, "foo is not part of the model"),
    "another norm": ({"base_model.model.model.norm.weight": torch.ones(3)}, "has shape [3], expected [16]"),
}


@pytest.mark.parametrize("case", EDITS)
def test_tensors_that_do_not_fit_are_refused_and_the_model_stays_as_it_was(case: str, tmp_path: Path) -> None:
    changes, words = EDITS[case]
    adapter = adapter_of_llama(tmp_path)
    path = adapter / "adapter_model.safetensors"
    tensors = {**load_file(path), **changes}
    save_file({key: tensor for key, tensor in tensors.items() if tensor is not None}, path)
    model = load_model(tmp_path / "base")
    before = {key: bits(value) for key, value in model.state_dict().items()}
    with refused(path, words):
        load_adapter(model, adapter)
    assert {key: bits(value) for key, value in model.state_dict().items()} == before
    assert not adapted(model)
    assert len(trainable(model)) == len(before)


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}extra"], ids=["empty", "huge", "more"])
def test_files_that_are_none_are_refused(data: bytes, tmp_path: Path) -> None:
    adapter = adapter_of_llama(tmp_path)
    (adapter / "adapter_model.safetensors").write_bytes(data)
    with refused("is not a whole safetensors file"):
        load_model(adapter)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    adapter = adapter_of_llama(tmp_path)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with refused("has no adapter_model.safetensors", "opening a pickle can run code"):
        load_model(adapter)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gpt2", {"modules_to_save": ["wte"]}, "lm_head.weight is tied to transformer.wte.weight"),
        ("gpt2", {"modules_to_save": ["lm_head"]}, "lm_head.weight is tied to transformer.wte.weight"),
        ("t5", {"modules_to_save": ["lm_head"], "target_modules": ["q"]}, "lm_head.weight is tied to shared.weight"),
        ("bert masked lm, relu", {"modules_to_save": ["cls"], "target_modules": ["query"]}, "tied to"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*tie:UserWarning", "ignore:.*tied:UserWarning")  # PEFT says that it parts them
def test_what_peft_would_part_from_what_it_is_tied_to_is_refused(
    name: str, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    make_peft(name, tmp_path, **settings)
    with refused(words, "take it out"):
        load_model(tmp_path / "adapter")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gpt2", {"whole": ("decoder.embed.token",)}, "tied to transformer.wte.weight"),
        ("bert", {"whole": ("heads.masked_lm",)}, "tied to"),
        ("transformer", {}, "cannot express position = 'sinusoidal'"),
        ("gpt2 local", {}, "cannot express window = 2"),
        ("vit", {}, "other names for the layers of 'vit'"),
    ],
)
def test_what_peft_could_not_open_is_not_written(
    name: str, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    model = our_tiny.make(name)
    add_adapters(model, LoraConfig(**settings))
    with refused(words):
        save_adapter(model, tmp_path / "new", "base")
    assert not (tmp_path / "new").exists()


def test_recurrent_models_plain_ones_and_directories_of_models_are_refused(tmp_path: Path) -> None:
    config = FAMILIES["recurrent"].presets["recurrent-lstm-additive"]
    model = FAMILIES["recurrent"].build(config)
    add_adapters(model, LoraConfig(targets=("w",)))
    with refused("PEFT has no models of the layout 'regard-recurrent'"):
        save_adapter(model, tmp_path / "new", "base")
    plain = our_tiny.make("gpt2")
    with refused("has no adapters", "add_adapters"):
        save_adapter(plain, tmp_path / "new", "base")
    save_model(plain, tmp_path / "model")
    add_adapters(plain, LoraConfig())
    with refused("holds a model", "a directory of its own"):
        save_adapter(plain, tmp_path / "model", "base")
    assert not (tmp_path / "new").exists()


def test_a_model_that_has_adapters_or_eight_bits_takes_no_others(tmp_path: Path) -> None:
    adapter = adapter_of_llama(tmp_path)
    model = load_model(tmp_path / "base")
    load_adapter(model, adapter)
    with refused("14 layers with adapters"):
        load_adapter(model, adapter)
    with refused("fewer bits"):
        load_adapter(load_model(tmp_path / "base", dtype=Int8Weight), adapter)
    shutil.rmtree(tmp_path / "base")
    with refused("there is no model at"):
        load_model(adapter)


def test_an_adapter_that_was_read_rests_its_dropout_while_the_model_is_read(tmp_path: Path) -> None:
    make_peft("llama", tmp_path, lora_dropout=0.5)
    model = load_model(tmp_path / "base")
    load_adapter(model, tmp_path / "adapter")
    ids: Tensor = inputs_of("llama")["ids"]
    assert torch.equal(model(ids).logits, model(ids).logits)
    assert not torch.equal(model.train()(ids).logits, model(ids).logits)
