"""Whatever sentence-transformers' files say about vectors, ours are its own; the rest is refused by file and key."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

import regard
from faults.refusal import refused

POOLING, TRANSFORMER = "1_Pooling/config.json", "sentence_bert_config.json"
WHOLE, TOKENIZER = "config_sentence_transformers.json", "tokenizer_config.json"
WORDS = ["query", ":", "The", "the", "cat", "Cat", "sat", "on", "mat", "a", "house", "is", "big", "small", "and", "not"]
TEXTS = [
    "The cat",
    "",
    "the cat sat on the mat",
    "a big House and a small cat " * 9,
    "unseen",
    "Cat not mat: the query",
]
MAX_LEN = 32

Change = Callable[..., Path]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random BERT as sentence-transformers kept them since 2021: mean, normalised, at most 20 tokens."""
    place = tmp_path_factory.mktemp("plain")
    torch.manual_seed(0)
    vocabulary = {word: id for id, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, "num_hidden_layers": 2}
    model = BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=MAX_LEN, **sizes))
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(place)
    core = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=False)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    core.save(str(place / "tokenizer.json"))
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (place / "1_Pooling").mkdir()
    for name, value in {
        TOKENIZER: {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, **roles},
        "modules.json": modules,
        POOLING: {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True},
        TRANSFORMER: {"max_seq_length": 20, "do_lower_case": False},
        WHOLE: {"__version__": {"sentence_transformers": "2.0.0"}},
    }.items():
        (place / name).write_text(json.dumps(value))
    return place


@pytest.fixture
def change(plain: Path, tmp_path: Path) -> Change:
    def changed(*edits: tuple[str, dict[str, Any]]) -> Path:
        place = tmp_path / "model"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(plain, place)
        for name, values in edits:
            found = json.loads((place / name).read_text()) | values
            (place / name).write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
        return place

    return changed


def assert_same(place: Path) -> np.ndarray:
    ours = regard.load(place)(TEXTS)
    theirs = SentenceTransformer(str(place), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
    return np.asarray(ours)


def named(mode: Any, **more: Any) -> tuple[str, dict[str, Any]]:
    return POOLING, {"pooling_mode": mode, "pooling_mode_mean_tokens": None, **more}


def switched(*keys: str) -> tuple[str, dict[str, Any]]:
    return POOLING, {"pooling_mode_mean_tokens": False, **{f"pooling_mode_{key}": True for key in keys}}


PROMPT = (WHOLE, {"prompts": {"query": "query: ", "other": "not"}, "default_prompt_name": "query"})
CASES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "weighted mean": [switched("weightedmean_tokens")],
    "max": [switched("max_tokens")],
    "root": [switched("mean_sqrt_len_tokens")],
    "several": [switched("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "lasttoken")],
    "nothing switched on": [switched()],
    **{f"named {mode}": [named(mode)] for mode in ("cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")},
    "a name before a switch": [(POOLING, {"pooling_mode": "max"})],
    "named list": [named(["mean", "cls"])],
    "prompt": [PROMPT],
    "unnamed prompt": [(WHOLE, {"prompts": {"query": "query: "}})],
    "prompt that is empty": [(WHOLE, {"prompts": {}, "default_prompt_name": "document"})],
    **{
        f"prompt not pooled, {mode}": [PROMPT, named(mode, include_prompt=False)]
        for mode in ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
    },
    "truncate_dim": [(WHOLE, {"truncate_dim": 5})],
    "truncate_dim beyond the end": [(WHOLE, {"truncate_dim": 50})],
    "longest by the tokenizer": [(TOKENIZER, {"model_max_length": 11}), (TRANSFORMER, {"max_seq_length": None})],
    "longest by the model": [(TRANSFORMER, {"max_seq_length": None})],
    "the beginning is cut": [(TOKENIZER, {"truncation_side": "left"})],
    "the beginning is cut, with a prompt": [(TOKENIZER, {"truncation_side": "left"}), PROMPT],
    "lower case": [(TRANSFORMER, {"do_lower_case": True})],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_vectors_equal_those_of_sentence_transformers(change: Change, name: str) -> None:
    assert_same(change(*CASES[name]))


@pytest.mark.parity
def test_what_sentence_transformers_saves_today_gives_the_same(plain: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(plain), device="cpu", prompts={"a": "the "}, default_prompt_name="a")
    model.save(str(tmp_path / "today"))
    np.testing.assert_allclose(assert_same(tmp_path / "today"), model.encode(TEXTS), atol=2e-6)


@pytest.mark.parity
def test_a_plain_bert_takes_as_many_tokens_as_its_tokenizer_says(change: Change) -> None:
    place = change((TOKENIZER, {"model_max_length": 9}))
    (place / "modules.json").unlink()
    theirs = SentenceTransformer(str(place), device="cpu").encode(TEXTS)
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)  # ours are normalised where nothing is said
    np.testing.assert_allclose(regard.load(place)(TEXTS), theirs, atol=2e-6)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        (POOLING, {"pooling_mode": "cls+mean"}),
        (POOLING, {"pooling_mode": [["mean"]]}),
        (POOLING, {"pooling_mode": []}),
        (POOLING, {"pooling_mode_median_tokens": True}),
        (POOLING, {"include_prompt": "no"}),
        (WHOLE, {"default_prompt_name": "nowhere"}),
        (WHOLE, {"prompts": ["query: "]}),
        (WHOLE, {"truncate_dim": -1}),
        (TOKENIZER, {"truncation_side": "middle"}),
        (TRANSFORMER, {"max_seq_length": 0}),
        (TRANSFORMER, {"do_lower_case": "yes"}),
        (TRANSFORMER, {"transformer_task": "fill-mask"}),
        (TRANSFORMER, {"processor_kwargs": {"truncation_side": "left"}}),
        (TRANSFORMER, {"modality_config": {"text": {"method_output_name": "pooler_output"}}}),
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused_by_file_and_key(change: Change, file: str, values: dict[str, Any]) -> None:
    place = change((file, values))
    with refused(place / file, next(iter(values))):
        regard.load(place)


@pytest.mark.parametrize("kept", [[], [0], [0, 2], [1], [0, 2, 1], [0, 1, 1, 2]], ids=str)
def test_modules_that_would_give_other_vectors_are_refused(change: Change, kept: list[int]) -> None:
    place = change()
    modules = json.loads((place / "modules.json").read_text())
    (place / "modules.json").write_text(json.dumps([modules[i] for i in kept]))
    with refused(place / "modules.json", "the modules are"):
        regard.load(place)


def test_no_room_for_what_stands_around_a_text_is_refused(change: Change) -> None:
    with refused("at most 1 tokens", "the 2 that stand around", "max_seq_length"):
        regard.load(change((TRANSFORMER, {"max_seq_length": 1})))
