"""Damaged and hostile config.json files are refused with the file, the key, what was found and what was expected."""

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import save_file

import regard
from faults.refusal import measured, refused
from regard.cli.opening import Reading
from regard.models.registry import find_preset
from regard.weights.layout import LAYOUTS
from regard.weights.store import load_model, read_layout
from weights.checkpoints import change_json, save_tiny

MIB = 2**20


@pytest.fixture
def config(tmp_path: Path) -> Path:
    save_tiny(tmp_path)
    return tmp_path / "config.json"


@pytest.fixture
def any_config(tmp_path: Path) -> Path:
    """No model fits the weights beside it: whatever it says must be refused for what it says."""
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    return tmp_path / "config.json"


# The file itself


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"{", b"[]", b"null", b'"text"', b"5", b"NaN", b'{"a": }', b"\xef\xbb\xbf", b"[" * 100_000,
     b'{"a":' * 5_000, b'{"n_embd": ' + b"9" * 5000 + b"}", b"{" + b" " * 70 * MIB + b"}"],
    ids=lambda content: repr(content[:12]),
)  # fmt: skip
def test_a_file_that_is_no_json_object_is_refused(config: Path, content: bytes) -> None:
    config.write_bytes(content)
    with refused(config):
        load_model(config.parent)


@pytest.mark.parametrize("depth", [50, 900, 950, *range(970, 1000), 1100, 5000])
def test_deep_nesting_is_refused_at_any_depth(config: Path, depth: int) -> None:
    """Reading may succeed where printing the value fails, so every depth near the limit is tried."""
    settings = json.loads(config.read_text())
    del settings["n_embd"]
    config.write_text(json.dumps(settings)[:-1] + ', "n_embd": ' + "[" * depth + "]" * depth + "}")
    with refused(config):
        load_model(config.parent)


def test_a_missing_file_is_named(config: Path) -> None:
    config.unlink()
    with refused(f"there is no model in {config.parent} (no config.json)", "give the model's directory"):
        load_model(config.parent)


def test_a_key_that_stands_twice_is_refused(config: Path) -> None:
    config.write_text(config.read_text().replace('"n_embd": 8', '"n_embd": 8, "n_embd": 8'))
    with refused(config, "'n_embd' stands twice", "keep one"):
        load_model(config.parent)


def test_a_byte_order_mark_is_no_reason_to_refuse(config: Path) -> None:
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes())
    assert load_model(config.parent).n_parameters > 0


def test_keys_of_others_are_passed_over(config: Path) -> None:
    change_json(config, transformers_version="9.9", initializer_range=0.02, surprise={"a": [1, 2]})
    assert load_model(config.parent).n_parameters > 0


# The tokenizer beside it


@pytest.mark.parametrize("id", [11, 4294967295])
def test_a_token_beyond_the_table_of_the_model_is_refused_at_loading(config: Path, id: int) -> None:
    """C3: the tokenizer alone would hand out an id for which the model has no vector."""
    vocabulary = {chr(97 + i): i for i in range(11)}
    core = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    core.save(str(config.parent / "tokenizer.json"))
    settings = json.loads((config.parent / "tokenizer.json").read_text())
    change_json(config.parent / "tokenizer.json", model=settings["model"] | {"vocab": vocabulary | {"z": id}})
    with refused(str(id), hint=False):
        regard.load(config.parent)


# What kind of model


@pytest.mark.parametrize("value", ["surprise", "", None, 5, ["gpt2"], "GPT2", "x" * 10_000])
def test_an_unknown_model_type_is_refused_and_the_known_ones_are_listed(config: Path, value: Any) -> None:
    change_json(config, model_type=value)
    with refused(config, "model_type", *LAYOUTS):
        load_model(config.parent)


@pytest.mark.parametrize("value", [["Surprise"], "GPT2Model", [5], {"a": 1}, [["GPT2Model"]], 7])
def test_an_unknown_architecture_is_refused_and_the_known_ones_are_listed(config: Path, value: Any) -> None:
    change_json(config, architectures=value)
    with refused(config, "architectures", "GPT2LMHeadModel", "GPT2Model"):
        load_model(config.parent)


@pytest.mark.parametrize("value", ["swoosh", "", 5, ["gelu"], {"a": 1}])
def test_an_unknown_activation_is_refused(config: Path, value: Any) -> None:
    change_json(config, activation_function=value)
    with refused(config, "activation"):
        load_model(config.parent)


def test_code_that_config_json_names_is_never_run_and_the_message_says_so(config: Path) -> None:
    """C10: neither `auto_map` nor `trust_remote_code` in a file makes code run."""
    marker = config.parent / "ran"
    (config.parent / "modeling_evil.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Evil: pass\n")
    change_json(config, auto_map={"AutoModel": "modeling_evil.Evil"}, trust_remote_code=True)
    with refused(config, "auto_map", "never run", "delete auto_map"):
        load_model(config.parent)
    assert not marker.exists()


# Values

NUMBERS = {"n_embd": "d_model", "n_layer": "n_layers", "n_head": "n_heads", "n_positions": "max_len", "vocab_size": ""}


@pytest.mark.parametrize("value", ["8", 8.5, True, None, [8], {"a": 8}, float("nan"), float("inf"), -1, 1e308, 10**40])
@pytest.mark.parametrize("key", NUMBERS)
def test_a_size_that_is_no_sensible_number_is_refused_with_the_key_of_the_file(
    config: Path, key: str, value: Any
) -> None:
    change_json(config, **{key: value})
    with refused(config, NUMBERS[key] or key, key):
        load_model(config.parent)


@pytest.mark.parametrize("value", [0, -3, 2**31])
@pytest.mark.parametrize("key", ["n_embd", "n_head", "n_positions", "vocab_size", "n_inner"])
def test_a_size_out_of_range_is_refused(config: Path, key: str, value: int) -> None:
    change_json(config, **{key: value})
    with refused(config.parent):
        load_model(config.parent)


@pytest.mark.parametrize("value", ["0.1", True, float("nan"), float("inf"), -0.1, 1.0, 1e308, [0.1]])
@pytest.mark.parametrize("key", ["resid_pdrop", "attn_pdrop"])
def test_a_dropout_that_is_no_share_is_refused(config: Path, key: str, value: Any) -> None:
    change_json(config, **{key: value})
    with refused(config, "dropout", key):
        load_model(config.parent)


@pytest.mark.parametrize("value", [0.0, -1e-5, "1e-5", float("nan"), float("inf")])
def test_a_norm_without_a_small_positive_number_is_refused(config: Path, value: Any) -> None:
    change_json(config, layer_norm_epsilon=value)
    with refused(config, "norm_eps", "layer_norm_epsilon"):
        load_model(config.parent)


def test_a_width_that_the_heads_do_not_divide_is_refused(config: Path) -> None:
    change_json(config, n_head=3)
    with refused(config, "d_model 8", "n_heads 3", "n_embd", "n_head"):
        load_model(config.parent)


def test_whole_numbers_written_with_a_point_are_whole_numbers(config: Path) -> None:
    change_json(config, n_embd=8.0, n_layer=2.0)
    assert load_model(config.parent).config.d_model == 8


@pytest.mark.parametrize("key", ["n_embd", "n_layer", "n_positions", "vocab_size", "n_inner"])
def test_a_model_larger_than_the_file_is_refused_before_it_is_built(config: Path, key: str) -> None:
    change_json(config, **{key: 2**20})
    with refused(config.parent):
        load_model(config.parent)


def test_a_thousand_million_layers_are_refused_in_no_time_and_no_memory(config: Path) -> None:
    change_json(config, n_layer=10**9)
    message, grown = measured("regard.load_model(sys.argv[1])", config.parent)
    assert "n_layers is 1000000000" in message
    assert grown < 50 * MIB


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"num_key_value_heads": 3}, ["n_heads 32", "n_kv_heads 3", "num_key_value_heads"]),
        ({"num_key_value_heads": 0}, ["n_kv_heads is 0"]),
        ({"num_attention_heads": 7}, ["d_model 4096", "n_heads 7"]),
        ({"head_dim": 7}, ["rotary", "7 wide"]),
        ({"rope_theta": -1.0}, ["rope_theta is -1.0"]),
        ({"rope_theta": float("nan")}, ["rope_theta"]),
        ({"rope_theta": "10000"}, ["rope_theta"]),
        ({"rope_parameters": [1]}, ["rotary parameters"]),
        ({"rope_parameters": {"rope_type": "surprise"}}, ["rope_scaling.kind", "surprise"]),
        ({"rope_scaling": {"type": "linear", "factor": "x"}}, ["rope_scaling.factor"]),
        ({"rope_scaling": {"type": "linear", "factor": float("inf")}}, ["rope_scaling.factor"]),
        ({"hidden_act": "surprise"}, ["surprise", "silu"]),
        ({"eos_token_id": "</s>"}, ["eos_ids"]),
        ({"eos_token_id": [1, "x"]}, ["eos_ids[1]"]),
        ({"bos_token_id": 1.5}, ["bos_id", "bos_token_id"]),
        ({"tie_word_embeddings": "yes"}, ["tie"]),
        ({"attention_bias": "yes"}, ["qkv_bias"]),
    ],
    ids=str,
)
def test_a_llama_that_cannot_be_is_refused(any_config: Path, values: dict[str, Any], parts: list[str]) -> None:
    any_config.write_text(json.dumps({"model_type": "llama", **values}))
    with refused(any_config, *parts):
        load_model(any_config.parent)


@pytest.mark.parametrize("place", ["rope_theta", "rope_parameters"])
def test_a_rotation_without_a_base_is_refused(any_config: Path, place: str) -> None:
    rope = {"rope_theta": 0.0} if place == "rope_theta" else {"rope_parameters": {"rope_theta": 0.0}}
    any_config.write_text(json.dumps({"model_type": "llama", **rope}))
    with refused(any_config, "rope_theta is 0.0"):
        load_model(any_config.parent)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"model_type": "bert", "num_labels": -1}, ["num_labels"]),
        ({"model_type": "bert", "num_labels": 10**12}, ["num_labels"]),
        ({"model_type": "bert", "num_labels": "3"}, ["num_labels"]),
        ({"model_type": "bert", "id2label": {"0": "a", "2": "b"}}, ["id2label"]),
        ({"model_type": "bert", "id2label": {"x": "a"}}, ["id2label"]),
        ({"model_type": "bert", "id2label": ["a", "b"]}, ["id2label"]),
        ({"model_type": "bert", "is_decoder": True}, ["is_decoder"]),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, ["position_embedding_type"]),
        ({"model_type": "bert", "position_embedding_type": ["x"]}, ["position_embedding_type"]),
        ({"model_type": "bert", "type_vocab_size": -1}, ["n_segments", "type_vocab_size"]),
        ({"model_type": "bert", "classifier_dropout": "x"}, ["pooled_heads_dropout"]),
        ({"model_type": "roberta", "max_position_embeddings": 2}, ["max_len is 0", "max_position_embeddings"]),
        ({"model_type": "roberta", "max_position_embeddings": "514"}, ["max_position_embeddings"]),
        ({"model_type": "electra", "embedding_size": 0}, ["d_embed", "embedding_size"]),
        ({"model_type": "gpt2", "n_embd": None, "n_inner": None}, []),
        ({"model_type": "gpt2", "n_embd": [1], "n_inner": None}, []),
        ({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": True}, ["scale_attn_by_inverse_layer_idx"]),
        ({"model_type": "t5", "feed_forward_proj": "surprise"}, ["feed_forward_proj", "surprise"]),
        ({"model_type": "t5", "feed_forward_proj": None}, []),
        ({"model_type": "t5", "feed_forward_proj": ["relu"]}, []),
        ({"model_type": "t5", "d_model": 10**400}, []),
        ({"model_type": "t5", "d_model": True}, ["d_model"]),
        ({"model_type": "t5", "relative_attention_num_buckets": 0}, ["n_buckets", "relative_attention_num_buckets"]),
        ({"model_type": "t5", "num_decoder_layers": 10**9}, ["n_layers is 1000000000"]),
        ({"model_type": "marian", "decoder_vocab_size": 5}, ["target_vocab_size 5"]),
        ({"model_type": "marian", "decoder_attention_heads": 7}, ["n_heads 7"]),
        ({"model_type": "bart", "share_encoder_decoder_embeddings": [], "d_model": "x"}, ["d_model"]),
        ({"model_type": "vit", "image_size": [224]}, ["image_size"]),
        ({"model_type": "vit", "image_size": [1, 2, 3]}, ["image_size"]),
        ({"model_type": "vit", "image_size": "224"}, ["image_size"]),
        ({"model_type": "vit", "image_size": -5}, ["image of -5 x -5"]),
        ({"model_type": "vit", "image_size": 10**9}, ["image"]),
        ({"model_type": "vit", "patch_size": 0}, ["patches of 0"]),
        ({"model_type": "vit", "patch_size": 300}, ["patches of 300"]),
        ({"model_type": "vit", "num_channels": -1}, ["channels is -1", "num_channels"]),
        ({"model_type": "vit", "num_channels": 10**9}, ["channels is 1000000000", "num_channels"]),
        ({"model_type": "vit", "num_channels": 10**30}, ["channels is", "num_channels"]),
        ({"model_type": "vit", "num_channels": 0}, ["channels is 0", "num_channels"]),
        ({"model_type": "deit", "qkv_bias": "x"}, ["qkv_bias"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_model_that_cannot_be_is_refused(any_config: Path, values: dict[str, Any], parts: list[str]) -> None:
    any_config.write_text(json.dumps(values))
    with refused(any_config if parts else any_config.parent, *parts):
        load_model(any_config.parent)


@pytest.mark.parametrize("key", ["num_labels", "id2label"])
def test_more_labels_than_any_model_has_are_refused_before_they_are_read(any_config: Path, key: str) -> None:
    value = {str(number): "x" for number in range(100_001)} if key == "id2label" else 100_001
    any_config.write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1, key: value}))
    with refused(any_config, "num_labels is 100001", "expected 0 to 100,000"):
        load_model(any_config.parent)


def test_a_hundred_thousand_labels_take_no_time(any_config: Path) -> None:
    any_config.write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1, "num_labels": 100_000}))
    begun = time.process_time()
    with refused("do not fit"):
        load_model(any_config.parent)
    assert time.process_time() - begun < 3


# Special tokens and the vocabulary


PAIRS = {"model_type": "marian", "vocab_size": 100, "encoder_layers": 1, "decoder_layers": 1, "d_model": 8}
PAIRS |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 99, "eos_token_id": 0}
PAIRS |= {"decoder_start_token_id": 99}
APART = {"decoder_vocab_size": 50, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}


@pytest.mark.parametrize("value", [-5, -(2**63), 100, 10**6, 10**40])
@pytest.mark.parametrize("key", ["pad_token_id", "eos_token_id", "decoder_start_token_id"])
def test_a_special_token_that_the_vocabulary_has_not_is_refused(any_config: Path, key: str, value: int) -> None:
    any_config.write_text(json.dumps(PAIRS | {key: value}))
    with refused(any_config, f"{key} is {value}"[:30], "0 to 99"):
        load_model(any_config.parent)


@pytest.mark.parametrize("key", ["pad_token_id", "eos_token_id", "decoder_start_token_id"])
def test_a_target_with_a_vocabulary_of_its_own_has_the_special_tokens_in_it(any_config: Path, key: str) -> None:
    inside = {"pad_token_id": 49, "eos_token_id": 0, "decoder_start_token_id": 49}
    any_config.write_text(json.dumps(PAIRS | APART | inside | {key: 50}))
    with refused(any_config, f"{key} is 50", "0 to 49"):
        load_model(any_config.parent)
    any_config.write_text(json.dumps(PAIRS | APART | inside))
    with refused("do not fit"):
        load_model(any_config.parent)


@pytest.mark.parametrize(
    "values", [{"bos_token_id": -1}, {"eos_token_id": -1}, {"eos_token_id": [3, -2]}, {"pad_token_id": 11}], ids=str
)
def test_a_token_that_no_vocabulary_has_is_refused_in_a_text_generator_too(
    config: Path, values: dict[str, Any]
) -> None:
    change_json(config, **values)
    with refused(config, next(iter(values)), "0 to 10"):
        load_model(config.parent)


def test_what_transformers_passes_over_is_no_special_token(config: Path) -> None:
    """Llama's first files say pad_token_id -1; a GPT-2 with a small vocabulary often keeps 50256 as its ends."""
    change_json(config, pad_token_id=-1, bos_token_id=50_256, eos_token_id=[50_256, 3])
    opened = load_model(config.parent).config
    assert (opened.pad_id, opened.bos_id, opened.eos_ids) == (None, None, (3,))


@pytest.mark.parametrize(
    ("key", "value"), [("is_decoder", [1] * 100_000), ("is_decoder", "x" * 10**6), ("hidden_act", "x" * 10**6)]
)
def test_a_long_value_is_not_quoted_in_full(any_config: Path, key: str, value: Any) -> None:
    """How long a refusal may be, `refused` knows."""
    any_config.write_text(json.dumps({"model_type": "bert", key: value}))
    with refused(any_config):
        load_model(any_config.parent)


JUNK = [None, True, "", "x" * 9000, -1, 0, 10**6, 2**63, 10**400, 0.5, 1e308, float("nan"), [], {"a": None}]
JUNK.append([[1, [None]]] * 3000)


def nested(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With `encoder.x` put into its table `encoder`."""
    config = copy.deepcopy(config)
    for key, value in changes.items():
        table, _, leaf = key.rpartition(".")
        (config[table] if table else config)[leaf] = value
    return config


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_junk_under_any_key_of_any_layout_gives_another_error(any_config: Path, name: str) -> None:
    layout = LAYOUTS[name]
    shallow = {key: 1 for key, entry in layout.keys.items() if entry.ours.endswith("_layers")}
    known = {*layout.keys, *layout.supported}
    tables = {key.partition(".")[0]: {} for key in known if "." in key}
    whole = nested({"model_type": name, **tables}, shallow)
    layout.read(reading := Reading(whole))
    keys = reading.asked | {"auto_map"} | (known if tables else set())  # tables are read from a copy
    assert keys > known
    for key in sorted(keys):
        for junk in JUNK:
            any_config.write_text(json.dumps(nested(whole, {key: junk})))
            begun = time.process_time()
            with refused(any_config.parent):
                load_model(any_config.parent, device="meta")
            assert time.process_time() - begun < 5, f"{key} = {junk!r:.40}"


@pytest.mark.parametrize("name", ["gpt3", "gpt2-xl", "bert-large", "t5-large", "vit-large", "transformer-big"])
def test_published_sizes_over_a_tiny_file_are_refused_before_memory_is_taken(any_config: Path, name: str) -> None:
    _, config = find_preset(name)
    any_config.write_text(json.dumps(LAYOUTS[config.layout].write(config)))
    with refused(any_config.parent, "do not fit"):
        load_model(any_config.parent)


def test_a_folder_of_models_and_one_of_a_run_say_where_theirs_are(tmp_path: Path) -> None:
    for name in ("discriminator", "generator"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    with refused(f"there is one in {tmp_path / 'discriminator'} and in {tmp_path / 'generator'}"):
        read_layout(tmp_path)
    (tmp_path / "run.toml").touch()
    (tmp_path / "model").mkdir()
    with refused(f"it is the folder of a run, whose model is {tmp_path / 'model'}"):
        read_layout(tmp_path)
