"""Vocabularies of GGUF files give llama.cpp's ids, for every split and on real lines.

llama.cpp takes minutes to build, so llama_cpp_ids.json holds a digest of the ids that it gave; where it is installed,
it is asked again, line by line. `REGARD_RECORD=1 pytest -n 0 tests/text/test_gguf_vocabulary.py` records anew.
"""

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from regard.errors import UserError
from regard.text.gguf_vocabulary import SPLITS, from_metadata
from regard.text.tokenizer import Tokenizer

Metadata = dict[str, Any]


def written(metadata: Metadata, folder: Path) -> Path:
    """A GGUF file that holds this vocabulary and no weights."""
    path = folder / "vocabulary.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for add in (writer.add_block_count, writer.add_head_count, writer.add_embedding_length):
        add(8)
    writer.add_context_length(512)
    writer.add_feed_forward_length(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(metadata["tokenizer.ggml.tokens"]))
    for key, value in metadata.items():
        adders = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string, list: writer.add_array}
        adders[type(value)](key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def shortened(metadata: Metadata) -> Metadata:
    """The first 4,000 tokens: peers take seconds to read them all."""
    tokens = metadata["tokenizer.ggml.tokens"][:4000]
    known = set(tokens)
    merges = [line for line in metadata["tokenizer.ggml.merges"] if line.replace(" ", "") in known]
    few = {"tokens": tokens, "merges": merges, "token_type": metadata["tokenizer.ggml.token_type"][:4000]}
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in few.items()}


RECORD = Path(__file__).with_name("llama_cpp_ids.json")


def digest(ids: Iterable[list[int]]) -> str:
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()


def equals_llama_cpp(name: str, metadata: Metadata, folder: Path, lines: list[str]) -> None:
    tokenizer = from_metadata(metadata)
    ours = [tokenizer.encode(line).ids for line in lines]
    recorded = json.loads(RECORD.read_text())
    if importlib.util.find_spec("llama_cpp"):
        import llama_cpp

        model = llama_cpp.Llama(str(written(metadata, folder)), vocab_only=True, verbose=False)
        theirs = [model.tokenize(line.encode(), add_bos=True, special=True) for line in lines]
        for line, one, other in zip(lines, ours, theirs, strict=True):
            assert one == other, line
        if os.environ.get("REGARD_RECORD"):
            recorded[name] = {"llama-cpp-python": llama_cpp.__version__, "lines": len(lines), "sha256": digest(theirs)}
            RECORD.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
    assert len(lines) == recorded[name]["lines"]
    assert digest(ours) == recorded[name]["sha256"]


def _one_name_of_each_split() -> list[str]:
    return list({split: name for name, split in reversed(SPLITS.items())}.values())


ODD = ["", "<|im_start|>user\nhi<|im_end|>\n", "a<|endoftext|> b", "x\u0085y\u2028z\u00a0\u3000", "12 345 6789 ½²"]


@pytest.mark.parity
@pytest.mark.parametrize("name", _one_name_of_each_split())
def test_ids_equal_llama_cpp_for_every_split(
    smollm2_metadata: Metadata, tmp_path: Path, lines: list[str], name: str
) -> None:
    own = smollm2_metadata["tokenizer.ggml.pre"] == name
    metadata = (smollm2_metadata if own else shortened(smollm2_metadata)) | {"tokenizer.ggml.pre": name}
    equals_llama_cpp(name, metadata, tmp_path, [*lines, *ODD])


@pytest.mark.parity
def test_the_real_file_has_a_bos_only_where_it_says_so(smollm2_metadata: Metadata) -> None:
    ours = from_metadata(smollm2_metadata)
    assert (ours.bos_id, ours.eos_id, ours.unk_id, ours.pad_id, ours.vocab_size) == (1, 2, 0, 2, 49152)
    assert ours.encode("hi").ids == [6004]
    assert from_metadata(smollm2_metadata | {"tokenizer.ggml.add_bos_token": True}).encode("hi").ids == [1, 6004]
    assert ours.chat_template is not None
    assert "im_start" in ours.chat_template


@pytest.mark.parity
def test_scored_vocabularies_equal_llama_cpp(llama_metadata: Metadata, tmp_path: Path, lines: list[str]) -> None:
    odd = [" two", "  three", "a</s>b", "<s>x", "<0x41>"]
    equals_llama_cpp("scored", llama_metadata, tmp_path, [*lines, *odd])


@pytest.mark.parity
def test_ids_equal_transformers_reading_the_same_file(
    smollm2_metadata: Metadata, tmp_path: Path, lines: list[str]
) -> None:
    metadata = shortened(smollm2_metadata)
    path = written(metadata, tmp_path)
    theirs, ours = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name), from_metadata(metadata)
    for line in lines:
        if not any(char.isnumeric() and not char.isascii() for char in line):  # they join ½ to its neighbours
            assert ours.encode(line).ids == theirs(line)["input_ids"], line


# ---- a vocabulary small enough to see

SMALL: Metadata = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<end>", "a", "b", "ab", "Ġ"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 0,
}


def changed(**changes: Any) -> Tokenizer:
    return from_metadata(SMALL | {f"tokenizer.ggml.{key}": value for key, value in changes.items()})


def test_special_tokens_are_found_in_text_and_hidden_when_decoding() -> None:
    ours = changed()
    assert ours.encode("ab <end>a").ids == [3, 4, 0, 1]
    assert ours.decode([3, 4, 0, 1]) == "ab a"


@given(text=st.text(alphabet="ab \n'1é<end>"))
def test_any_text_comes_back_from_the_real_vocabulary(smollm2_tokenizer: Tokenizer, text: str) -> None:
    assert smollm2_tokenizer.decode(smollm2_tokenizer.encode(text).ids) == text


@pytest.fixture(scope="module")
def smollm2_tokenizer(smollm2_metadata: Metadata) -> Tokenizer:
    return from_metadata(smollm2_metadata)


def test_an_empty_token_gets_a_name() -> None:
    assert changed(tokens=["<end>", "a", "b", "ab", ""]).token_of(4) == "[EMPTY_4]"


def test_an_unknown_split_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown GGUF pre-tokenizer .* 'brand-new'") as caught:
        changed(pre="brand-new")
    assert "smollm" in caught.value.hint
    assert "qwen2" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model": "bert"}, "unknown GGUF tokenizer kind 'bert'"),
        ({"model": None}, "unknown GGUF tokenizer kind 'missing'"),
        ({"tokens": []}, "no list of tokens"),
        ({"tokens": 5}, "expected a list"),
        ({"tokens": [1, 2]}, "no list of tokens"),
        ({"tokens": ["a", "a", "b", "ab", "x"]}, "twice"),
        ({"token_type": [1]}, "1 token types for 5 tokens"),
        ({"merges": ["ab"]}, "a merge"),
        ({"merges": ["a x"]}, "failed"),
        ({"eos_token_id": 99}, "eos_token_id is 99"),
        ({"eos_token_id": -1}, "eos_token_id is -1"),
        ({"add_bos_token": True}, "bos token"),
        ({"model": "llama", "scores": [0.0]}, "1 scores for 5 tokens"),
        (
            {"model": "llama", "tokens": ["a", "b", "ab", "x", "y" * 5000], "scores": [0.0] * 5},
            "the GGUF file has a piece of 5,000 characters: 'yyyy",
        ),
    ],
)
def test_wrong_metadata_is_refused(changes: Metadata, match: str) -> None:
    with pytest.raises(UserError, match=match):
        changed(**changes)


def test_the_mark_for_no_id_means_no_token() -> None:
    assert changed(padding_token_id=0xFFFFFFFF).pad_id is None
