"""Flags beside a tokenizer.json count as they do in transformers: for each of them, both ways, the same ids."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from faults.refusal import refused
from regard.text.load import load

TEXT = ["Hello world the cat sat on the mat", "été à Paris, mãe", "New York is big", "中文 cat", "e" * 9] * 5
LINES = ["Hello world", "  the cat ", "été À Paris", "New York</s>big", "Hello\n\n world .", "中文 cats", "", " "]
ROLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def byte_pairs(prefix: bool) -> tokenizers.Tokenizer:
    core = tokenizers.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    core.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=alphabet)
    )
    return core


def roberta(prefix: bool) -> tokenizers.Tokenizer:
    core = byte_pairs(prefix)
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=prefix)
    return core


def bert(lowercase: bool, strip_accents: bool | None = None) -> tokenizers.Tokenizer:
    core = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=False)  # so that it learns both
    core.pre_tokenizer, core.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    both = [*TEXT, *map(str.lower, TEXT), "ete mae"]
    core.train_from_iterator(both, trainers.WordPieceTrainer(vocab_size=160, special_tokens=special))
    core.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return core


def llama(prefix: bool) -> tokenizers.Tokenizer:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    core = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    core.normalizer = normalizers.Sequence(steps if prefix else steps[1:])
    core.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=420, special_tokens=["<unk>", "<s>", "</s>", *bytes_])
    )
    data = json.loads(core.to_str())  # bytes are plain tokens, not ones to be found in a text
    data["added_tokens"] = data["added_tokens"][:3]
    core = tokenizers.Tokenizer.from_str(json.dumps(data))
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    core.decoder = decoders.Sequence(parts)
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return core


def save(directory: Path, core: tokenizers.Tokenizer, name: str, model_type: str, **config: Any) -> Path:
    core.save(str(directory / "tokenizer.json"))
    named = {"tokenizer_class": name} if name else {}
    (directory / "tokenizer_config.json").write_text(json.dumps(named | config))
    (directory / "config.json").write_text(json.dumps({"model_type": model_type}))
    return directory


def assert_same(directory: Path) -> None:
    ours, theirs = load(directory), AutoTokenizer.from_pretrained(directory)
    for line in LINES:
        ids = theirs(line)["input_ids"]
        assert ours.encode(line).ids == ids, line
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True), line


@pytest.mark.parity
@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("stated", [{}, {"add_prefix_space": False}, {"add_prefix_space": True}], ids=str)
@pytest.mark.parametrize(
    ("make", "name", "model_type"),
    [
        (byte_pairs, "GPT2Tokenizer", "gpt2"),
        (byte_pairs, "", "gpt2"),
        (roberta, "RobertaTokenizer", "roberta"),
        (roberta, "BartTokenizerFast", "bart"),
        (byte_pairs, "PreTrainedTokenizerFast", "gpt2"),
    ],
)
def test_add_prefix_space_counts_as_in_transformers(
    tmp_path: Path, make: Any, name: str, model_type: str, stated: Any, in_file: bool
) -> None:
    assert_same(save(tmp_path, make(in_file), name, model_type, **stated))


@pytest.mark.parity
@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": True},
        {"strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"tokenize_chinese_chars": False},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("name", "model_type"),
    [
        ("BertTokenizer", "bert"),
        ("", "electra"),
        ("DistilBertTokenizerFast", "distilbert"),
        ("TokenizersBackend", "bert"),
    ],
)
def test_bert_s_flags_count_as_in_transformers(
    tmp_path: Path, name: str, model_type: str, stated: Any, in_file: bool
) -> None:
    assert_same(save(tmp_path, bert(in_file, not in_file), name, model_type, **stated))


@pytest.mark.parity
@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("legacy", [{}, {"legacy": False}, {"legacy": True}], ids=str)
@pytest.mark.parametrize("stated", [{}, {"add_prefix_space": False}, {"add_prefix_space": True}], ids=str)
def test_llama_s_flags_count_as_in_transformers(tmp_path: Path, stated: Any, legacy: Any, in_file: bool) -> None:
    assert_same(save(tmp_path, llama(in_file), "LlamaTokenizer", "llama", **ROLES, **stated, **legacy))


@pytest.mark.parity
def test_llama_3_under_llama_s_name_is_taken_as_it_is(tmp_path: Path) -> None:
    roles = ROLES | {"bos_token": "<|endoftext|>"}
    assert_same(save(tmp_path, byte_pairs(False), "LlamaTokenizer", "llama", **roles, add_prefix_space=True))


def test_a_flag_that_contradicts_steps_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer_config.json"
    core = bert(True)
    core.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    load(save(tmp_path, core, "BertTokenizer", "bert", do_lower_case=True, strip_accents=True))
    for key in ("do_lower_case", "strip_accents"):
        with refused(file, f"{key} is false", "tokenizer.json", "delete it"):
            load(save(tmp_path, core, "BertTokenizer", "bert", **{key: False}))
    core = byte_pairs(False)
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), core.pre_tokenizer])
    load(save(tmp_path, core, "GPT2Tokenizer", "gpt2", add_prefix_space=False))
    with refused(file, "add_prefix_space is true"):
        load(save(tmp_path, core, "GPT2Tokenizer", "gpt2", add_prefix_space=True))
    core = llama(True)
    core.pre_tokenizer = pre_tokenizers.Digits(True)
    load(save(tmp_path, core, "LlamaTokenizer", "llama"))
    with refused(file, "add_prefix_space is false"):
        load(save(tmp_path, core, "LlamaTokenizer", "llama", add_prefix_space=False))


def test_a_flag_that_is_neither_true_nor_false_is_refused(tmp_path: Path) -> None:
    with refused("do_lower_case is 'yes'", tmp_path / "tokenizer_config.json", hint=False):
        load(save(tmp_path, bert(True), "BertTokenizer", "bert", do_lower_case="yes"))
