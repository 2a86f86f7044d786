"""What is saved is what is opened, to the last bit; and files of other programs and other times open too."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from models import tiny
from parity import tiny as theirs_tiny
from regard.errors import UserError
from regard.layers.half import HalfWeight
from regard.layers.int8 import Int8Weight
from regard.models.base import Model
from regard.models.registry import FAMILIES
from regard.weights.store import load_model, save_model
from weights.checkpoints import TINY, bits, change_json, save_tiny, tensors_of


def assert_same_bits(ours: Model, other: Model) -> None:
    assert ours.state_dict().keys() == other.state_dict().keys()
    for name, tensor in ours.state_dict().items():
        assert tensor.dtype == other.state_dict()[name].dtype, name
        assert bits(tensor) == bits(other.state_dict()[name]), name


UNNAMED = {"gpt", "bert tasks", "bert local", "gpt2 local", "vit local"}
"Hugging Face has no place for GPT of 2018, for several heads that classify or for windows."
INTERLEAVED = {"transformer", "transformer untied"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(tiny.ALL.keys() - UNNAMED - INTERLEAVED))
def test_a_saved_model_is_opened_bit_by_bit(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = tiny.make(name).to(dtype)
    save_model(model, tmp_path)
    again = load_model(tmp_path, dtype=None)
    assert again.config.filled() == model.config.filled()
    assert_same_bits(again, model)


@pytest.mark.parametrize("name", [name for name in FAMILIES["recurrent"].presets if "gru" not in name])
def test_a_saved_recurrent_model_is_opened_bit_by_bit(name: str, tmp_path: Path) -> None:
    config = replace(FAMILIES["recurrent"].presets[name], vocab_size=13, d_model=8, pad_id=12, start_id=None)
    model = FAMILIES["recurrent"].build(config)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert_same_bits(again, model)


@pytest.mark.parametrize("name", sorted(INTERLEAVED))
def test_a_model_saved_in_another_order_of_its_width_stays_in_that_order(name: str, tmp_path: Path) -> None:
    """Interleaved sinusoids are saved with all sines first; from then on nothing moves."""
    save_model(tiny.make(name), tmp_path / "one")
    save_model(load_model(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one/model.safetensors").read_bytes() == (tmp_path / "two/model.safetensors").read_bytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tie", [True, False])
def test_tied_tables_are_stored_once_and_stay_tied(tmp_path: Path, tie: bool, dtype: torch.dtype) -> None:
    save_tiny(tmp_path, replace(TINY, tie=tie), dtype)
    assert ("lm_head.weight" in tensors_of(tmp_path)) is not tie
    model = load_model(tmp_path, dtype=None)
    ids = torch.tensor([[1, 2, 3]])
    before = model(ids).logits
    with torch.no_grad():
        model.decoder.embed.token.weight[5] += 100.0
    assert torch.equal(model(ids).logits, before) is not tie


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_model_opens_in_the_type_that_is_asked_for(tmp_path: Path, dtype: torch.dtype) -> None:
    model = save_tiny(tmp_path)
    ours = load_model(tmp_path, dtype=dtype)
    assert_same_bits(ours, model.to(dtype))


def test_opening_and_saving_twice_gives_the_same_file(tmp_path: Path) -> None:
    save_tiny(tmp_path / "one")
    save_model(load_model(tmp_path / "one"), tmp_path / "two")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_model_can_be_saved_over_the_directory_that_it_was_opened_from(tmp_path: Path) -> None:
    before = save_tiny(tmp_path)
    save_model(load_model(tmp_path), tmp_path)
    assert_same_bits(load_model(tmp_path), before)


def test_what_the_layout_cannot_express_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot express window = 2"):
        save_tiny(tmp_path / "new", replace(TINY, window=2))
    assert not (tmp_path / "new").exists()


def test_a_model_that_is_for_reading_only_is_not_saved(tmp_path: Path) -> None:
    """What `regard.load` holds has joined weights, or weights in fewer bits: no file has names for them."""
    save_tiny(tmp_path)
    held = load_model(tmp_path).fuse(), load_model(tmp_path, dtype=HalfWeight), load_model(tmp_path, dtype=Int8Weight)
    for model in held:
        with pytest.raises(UserError, match=r"reading and writing only[\s\S]*load_model"):
            save_model(model, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("value", [None, 3])
def test_a_special_token_that_there_is_not_is_not_invented(tmp_path: Path, value: int | None) -> None:
    save_tiny(tmp_path, replace(TINY, bos_id=value))
    assert load_model(tmp_path).config.bos_id == value


# Files of other programs and other times


def save_theirs(name: str, directory: Path) -> Path:
    torch.manual_seed(0)
    cls, config = theirs_tiny.ALL[name]
    getattr(hf, cls)(config).save_pretrained(directory)
    return directory / "model.safetensors"


def test_norms_with_the_names_of_tensorflow_open(tmp_path: Path) -> None:
    file = save_theirs("bert pre-training", tmp_path)
    expected = load_model(tmp_path)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {}
    for name, tensor in load_file(file).items():
        for new, former in old.items():
            name = name.removesuffix(new) + former if name.endswith(new) else name
        tensors[name] = tensor
    assert any(name.endswith(".gamma") for name in tensors)
    save_file(tensors, file)
    assert_same_bits(load_model(tmp_path), expected)


@pytest.mark.parametrize(
    ("name", "prefix"), [("gpt2", "transformer."), ("llama", "model."), ("bert classification", "bert.")]
)
def test_files_without_the_prefix_of_the_family_open(name: str, prefix: str, tmp_path: Path) -> None:
    """The first GPT-2 files say `wte.weight`, not `transformer.wte.weight`."""
    file = save_theirs(name, tmp_path)
    expected = load_model(tmp_path)
    save_file({name.removeprefix(prefix): tensor for name, tensor in load_file(file).items()}, file)
    assert not any(name.startswith(prefix) for name in load_file(file))
    assert_same_bits(load_model(tmp_path), expected)


def test_files_with_the_prefix_of_the_family_open_as_bare_models(tmp_path: Path) -> None:
    file = save_theirs("gpt2 bare", tmp_path)
    expected = load_model(tmp_path)
    save_file({f"transformer.{name}": tensor for name, tensor in load_file(file).items()}, file)
    assert_same_bits(load_model(tmp_path), expected)


def test_causal_masks_in_old_files_are_no_weights(tmp_path: Path) -> None:
    file = save_theirs("gpt2", tmp_path)
    expected = load_model(tmp_path)
    masks = {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 24, 24).tril().to(torch.uint8) for i in range(2)}
    masks |= {f"transformer.h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    save_file(load_file(file) | masks, file)
    assert_same_bits(load_model(tmp_path), expected)


def test_heads_that_the_model_does_not_have_may_stand_in_the_file(tmp_path: Path) -> None:
    """A body is often opened from a checkpoint that was trained with more heads."""
    save_theirs("bert pre-training", tmp_path)
    change_json(tmp_path / "config.json", architectures=["BertModel"])
    model = load_model(tmp_path)
    assert not model.heads
    assert model.pooler is not None


def test_a_configuration_without_architectures_gives_the_first_of_the_layout(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(tmp_path).unembed is not None


@pytest.mark.parametrize(
    "source", ["", "/no/such/place", "x" * 5000, "a\0b", "~nobody-by-this-name/x", "-", "--help", "a\nb", "a b"]
)
def test_a_source_that_is_nowhere_is_refused_with_what_may_be_given(source: str) -> None:
    with pytest.raises(UserError) as caught:
        load_model(source)
    assert "there is no model" in str(caught.value)
    assert "hf:owner/name" in caught.value.hint


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserError, match="is a file"):
        load_model(tmp_path / "notes.txt")


def test_a_path_with_spaces_newlines_and_a_leading_dash_opens(tmp_path: Path) -> None:
    for name in ("with space", "new\nline", "-dash", "ünïcode", "{}", "%s"):
        save_tiny(tmp_path / name)
        assert load_model(tmp_path / name).n_parameters > 0
