"""Texts and pairs become the ids and segments that transformers makes of them, cut where it cuts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from data.words import make_tokenizer
from faults.refusal import refused
from regard.data.inputs import Input, InputSettings, inputs_of, read_input_settings
from regard.text.load import load
from regard.text.tokenizer import Tokenizer

LONG = "The quick brown fox jumps over the lazy dog, and then it does so again and again until evening falls. "
TEXTS = ["", "A dog.", "Ünïcode 汉字 😀 words", LONG, LONG * 3, "one two three four five six seven"]
PAIRS = [(a, b) for a in TEXTS for b in TEXTS]
LENGTHS = [4, 5, 6, 7, 12, 13, 40, 512]
KINDS = ["bert_dir", "roberta_dir", "minilm_dir", "gpt2_dir"]


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture(scope="module")
def both(directory: Path) -> tuple[Tokenizer, Any]:
    return load(directory), AutoTokenizer.from_pretrained(directory)


@pytest.mark.parity
@pytest.mark.parametrize("max_len", LENGTHS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_ids_and_segments_are_those_of_transformers(both: tuple[Tokenizer, Any], max_len: int, side: str) -> None:
    """longest_first is what `truncation=True` means there, for texts and for pairs."""
    tokenizer, theirs = both
    settings = InputSettings(max_len, side == "left")
    theirs.truncation_side = side
    options = {"truncation": True, "max_length": max_len, "return_token_type_ids": True}
    alone = theirs(TEXTS, **options)
    together = theirs([a for a, _ in PAIRS], [b for _, b in PAIRS], **options)
    for ours, other in (
        (inputs_of([(text,) for text in TEXTS], tokenizer, settings), alone),
        (inputs_of(PAIRS, tokenizer, settings), together),
    ):
        assert [each.ids for each in ours] == other["input_ids"]
        assert [each.segments for each in ours] == other["token_type_ids"]


tokenizer = make_tokenizer()
words = st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join)


@given(words, words, st.integers(0, 12))
def test_a_pair_that_is_cut_is_as_long_as_may_be_and_as_even_as_can_be(first: str, second: str, max_len: int) -> None:
    ((ids, segments, n_cut),) = inputs_of([(first, second)], tokenizer, InputSettings(max_len))
    whole = tokenizer.encode(first, second)
    assert len(ids) == len(segments) == min(len(whole), max_len)
    assert n_cut == len(whole) - len(ids)
    a, b = (len(tokenizer.encode(text, special=False)) for text in (first, second))
    kept_a, kept_b = segments.count(0), segments.count(1)  # this vocabulary puts nothing around a pair
    assert (kept_a == a or kept_a >= kept_b - 1) and (kept_b == b or kept_b >= kept_a - 1)  # noqa: PT018
    assert ids == [*whole.ids[:kept_a], *whole.ids[a : a + kept_b]]


def test_segments_are_left_out_where_the_files_say_so(bert_dir: Path, tmp_path: Path) -> None:
    names = {"model_input_names": ["input_ids", "attention_mask"], "model_max_length": 9, "truncation_side": "left"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    settings = read_input_settings(tmp_path)
    assert settings == InputSettings(9, cut_left=True, segments=False)
    (found,) = inputs_of([("a b", "c")], load(bert_dir), settings)
    assert found == Input(load(bert_dir).encode("a b", "c").ids, [0] * 6, 0)
    assert read_input_settings(tmp_path / "nowhere") == InputSettings()


def test_no_room_for_what_stands_around_is_refused(bert_dir: Path) -> None:
    with refused("at most 2 tokens have no room for the 3"):
        inputs_of([("a", "b")], load(bert_dir), InputSettings(2))


def test_an_unknown_side_is_refused_by_file_and_key(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"truncation_side": "middle"}')
    with refused(tmp_path / "tokenizer_config.json", "truncation_side is 'middle'"):
        read_input_settings(tmp_path)
