"""Bad tokenizer files and texts end in UserError: no panic, no traceback, no hang, no flood."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.guard import guarded
from regard.text.load import load
from regard.text.tokenizer import Tokenizer

Maker = Callable[..., Path]


def tokenizer_json(**changes: Any) -> dict[str, Any]:
    """The smallest tokenizer.json that works, but for what is changed."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {"a": 0, "b": 1, "ab": 2},
        "merges": [["a", "b"]],
    }
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
    }
    return file | {"model": model | changes.pop("model", {})} | changes


def added(id: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": id, "content": content, **flags}


def opened(make: Maker, **changes: Any) -> Tokenizer:
    return load(make(tokenizer__json=tokenizer_json(**changes)))


def refused(make: Maker, match: str, **changes: Any) -> None:
    with pytest.raises(UserError, match=match):
        opened(make, **changes)


def test_the_smallest_file_works(make: Maker) -> None:
    assert opened(make).encode("abab").ids == [2, 2]


# ---- C1, C2: panics


def test_c1_a_panic_at_load_is_our_error(make: Maker) -> None:
    refused(make, "broke down|failed", model={"vocab": {"a": 0, "b": 1}, "merges": [["ab", "bbbbbbbbbb"]]})


def test_c1_a_merge_longer_than_any_token_is_our_error(make: Maker) -> None:
    prefix = {"continuing_subword_prefix": "####", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}
    refused(make, "failed", model=prefix)


def test_c2_a_split_that_explodes_is_our_error_and_the_tokenizer_lives_on(make: Maker) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    ours = opened(make, pre_tokenizer=split)
    with pytest.raises(UserError, match="tokenizing the text failed"):
        ours.encode("a" * 28 + "b")
    assert ours.encode("ab").ids == [2]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_interrupts_pass_through_the_guard(stop: type[BaseException]) -> None:
    with pytest.raises(stop), guarded("working"):
        raise stop


def test_errors_inside_the_guard_become_user_errors_of_bounded_length() -> None:
    with pytest.raises(UserError) as caught, guarded("working", "try again"):
        raise ValueError("x" * 10_000)
    assert len(str(caught.value)) < 500
    assert caught.value.hint == "try again"


# ---- C3, C6: ids


@pytest.mark.parametrize("id", [4294967295, 99_999_999, -1, 1.5, True, "7", None])
def test_c3_ids_beyond_any_vocabulary_are_refused(make: Maker, id: object) -> None:
    refused(make, "has the id", model={"vocab": {"a": 0, "b": id}, "merges": []})


def test_c3_ids_beyond_the_embedding_are_refused_by_check_fits(make: Maker) -> None:
    far = opened(make, model={"vocab": {"a": 0, "b": 5000}, "merges": []})
    with pytest.raises(UserError, match="5000"):
        far.check_fits(4096)


def test_c6_two_tokens_of_one_id_are_refused(make: Maker) -> None:
    refused(make, "share the id 0", model={"vocab": {"a": 0, "b": 0}, "merges": []})


def test_c6_gaps_between_ids_are_taken(make: Maker) -> None:
    gap = opened(make, model={"vocab": {"a": 0, "b": 9}, "merges": []})
    assert gap.encode("ab").ids == [0, 9]
    assert gap.decode([0, 5, 9]) == "a b"


def test_c6_a_role_whose_token_is_missing_gets_the_next_id(make: Maker) -> None:
    directory = make(tokenizer__json=tokenizer_json(), special_tokens_map__json={"pad_token": "<pad>"})
    assert load(directory).pad_id == 3


def test_c6_an_unknown_character_without_unknown_token_is_no_crash(make: Maker) -> None:
    assert opened(make).encode("a?b").ids == [2]  # the library leaves it out
    wordpiece = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    model = {**wordpiece, "max_input_chars_per_word": 100, "vocab": {"a": 0}}
    ours = load(make(tokenizer__json=tokenizer_json() | {"model": model}))
    with pytest.raises(UserError, match="UNK"):
        ours.encode("?")


# ---- C4: files that are no files


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "not valid JSON"),
        (b"null", "not a tokenizer.json"),
        (b"[]", "not a tokenizer.json"),
        (b"{}", "not a tokenizer.json"),
        (b'{"model": {"type": "BPE"', "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"model": {"a": 1, "a": 2}}', "'a' stands twice"),
        (b'{"model": NaN}', "NaN is not JSON"),
        (b'{"model": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (json.dumps(tokenizer_json(model={"type": "Nonsense"})).encode(), "failed"),
    ],
)
def test_c4_files_that_are_no_tokenizer_json_are_refused(make: Maker, content: bytes, match: str) -> None:
    with pytest.raises(UserError, match=match):
        load(make(tokenizer__json=content))


def test_c4_a_byte_order_mark_is_tolerated(make: Maker) -> None:
    content = b"\xef\xbb\xbf" + json.dumps(tokenizer_json()).encode()
    assert load(make(tokenizer__json=content)).encode("ab").ids == [2]


def test_c4_a_lone_surrogate_in_the_file_is_refused(make: Maker) -> None:
    content = json.dumps(tokenizer_json()).replace('"ab": 2', '"ab": 2, "\\ud800": 3').encode()
    with pytest.raises(UserError, match="failed"):
        load(make(tokenizer__json=content))


def test_c4_a_directory_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(UserError, match="not a file"):
        load(tmp_path)


def test_c4_a_file_beyond_its_limit_is_refused(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.text.tokenizer_json.MAX_VOCABULARY", 100)
    refused(make, "more than")


@settings(max_examples=100)
@given(data=st.data())
def test_c4_a_damaged_file_opens_or_is_refused(make: Maker, data: st.DataObject) -> None:
    content = bytearray(json.dumps(tokenizer_json(added_tokens=[added(3, "<s>")])).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UserError):
        load(make(tokenizer__json=bytes(content))).encode("ab <s> c")


# ---- C7, and normalisers that flood the memory


def test_c7_an_empty_added_token_is_refused(make: Maker) -> None:
    refused(make, "is empty", added_tokens=[added(3, "")])
    with pytest.raises(UserError, match="not empty"):
        load(make(tokenizer__json=tokenizer_json(), added_tokens__json={"": 3}))


def test_c7_too_many_added_tokens_are_refused(make: Maker) -> None:
    refused(make, "at most 100,000", added_tokens=[added(id, f"<{id}>") for id in range(100_001)])


def test_c7_an_added_token_in_the_wrong_place_is_refused(make: Maker) -> None:
    with pytest.raises(UserError, match="its place is 3"):
        load(make(tokenizer__json=tokenizer_json(), added_tokens__json={"<x>": 77}))


def test_a_normaliser_that_doubles_the_text_forty_times_is_refused(make: Maker) -> None:
    twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    refused(make, "times longer", normalizer={"type": "Sequence", "normalizers": [twice] * 40})


@pytest.mark.parametrize("wrap", [False, True])
def test_a_normaliser_that_puts_a_megabyte_in_front_of_each_text_is_refused(make: Maker, wrap: bool) -> None:
    front = {"type": "Prepend", "prepend": "x" * 2**20}
    refused(make, "times longer", normalizer={"type": "Sequence", "normalizers": [front]} if wrap else front)


def test_a_decoder_that_doubles_the_text_forty_times_is_refused(make: Maker) -> None:
    twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    refused(make, "times longer", decoder={"type": "Sequence", "decoders": [twice] * 40})


def test_a_word_length_that_takes_hours_is_refused(make: Maker) -> None:
    wordpiece = {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "", "vocab": {"a": 0}}
    refused(make, "max_input_chars_per_word", model={**wordpiece, "max_input_chars_per_word": 2**64 - 1})


@pytest.mark.parametrize(
    ("ids", "tokens", "match"),
    [
        ([1] * 1001, ["b"] * 1001, "adds 1,001 tokens"),
        ([77], ["b"], "the id 77"),
        ([1, 1], ["b"], "fewer"),
        ([4294967295], ["b"], "the id 42"),
    ],
)
def test_a_template_of_wrong_or_endless_ids_is_refused(make: Maker, ids: Any, tokens: Any, match: str) -> None:
    single = [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    special = {"X": {"id": "X", "ids": ids, "tokens": tokens}}
    template = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}
    refused(make, match, post_processor=template)


def test_an_added_token_that_the_library_would_renumber_is_refused(make: Maker) -> None:
    refused(make, "its place is 3", added_tokens=[added(4294967295, "<x>")])


def test_stored_padding_of_a_trillion_is_never_done(make: Maker) -> None:
    padding = {"direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "a"}
    ours = opened(make, padding={**padding, "strategy": {"Fixed": 10**12}})
    assert len(ours.encode("ab")) == 1


# ---- C10: code in files


def test_c10_code_that_a_file_names_is_not_run(make: Maker) -> None:
    directory = make(
        tokenizer__json=tokenizer_json(),
        tokenizer_config__json={"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"},
        evil__py="raise SystemExit('this must never run')",
    )
    assert load(directory).encode("ab").ids == [2]


# ---- the files beside


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("tokenizer_config__json", [], "expected a JSON object"),
        ("tokenizer_config__json", b'{"a": 1, "a": 2}', "stands twice"),
        ("tokenizer_config__json", {"pad_token": 7}, "expected a token"),
        ("tokenizer_config__json", {"pad_token": {"content": ""}}, "expected a token"),
        ("tokenizer_config__json", {"added_tokens_decoder": []}, None),
        ("tokenizer_config__json", {"added_tokens_decoder": [1]}, "must be an object"),
        ("tokenizer_config__json", {"added_tokens_decoder": {"x": "y"}}, "not an id"),
        ("tokenizer_config__json", {"added_tokens_decoder": {"3": None}}, "expected a token"),
        ("tokenizer_config__json", {"additional_special_tokens": 5}, "must be a list"),
        ("tokenizer_config__json", {"chat_template": 5}, "must be text"),
        ("special_tokens_map__json", {"eos_token": ["</s>"]}, "expected a token"),
        ("added_tokens__json", {"<x>": "3"}, "has the id"),
        ("added_tokens__json", {"<x>": -3}, "has the id"),
        ("config__json", b"{", "not valid JSON"),
        ("config__json", {"vocab_size": "many"}, None),
    ],
)
def test_wrong_settings_are_refused_by_name(make: Maker, name: str, content: Any, match: str | None) -> None:
    directory = make(tokenizer__json=tokenizer_json(), **{name: content})
    if match is None:
        load(directory)
        return
    with pytest.raises(UserError, match=match) as caught:
        load(directory)
    assert name.replace("__", ".") in caught.value.message


@pytest.mark.parametrize(
    ("vocabulary", "merges", "match"),
    [
        ({"a": 0, "b": 1, "ab": 2}, "a b\nab", "line 2"),
        ({"a": 0, "b": 1, "ab": 2}, "a  b", "line 1"),
        ({"a": 0, "b": 1, "ab</w>": 2}, "a b</w>", "</w>"),
        ({"a": 0, "b": 1}, "a b", "failed"),
        ({"a": 0, "b": 0}, "", "share the id"),
        ({}, "", "empty"),
    ],
)
def test_wrong_vocabulary_and_merges_are_refused(make: Maker, vocabulary: Any, merges: str, match: str) -> None:
    with pytest.raises(UserError, match=match):
        load(make(vocab__json=vocabulary, merges__txt=merges))


@pytest.mark.parametrize("content", ["", "\n\n", "no unknown\ntoken"])
def test_a_vocabulary_file_without_unknown_token_is_refused(make: Maker, content: str) -> None:
    with pytest.raises(UserError, match=r"empty|unknown token"):
        load(make(vocab__txt=content))


def test_marian_files_without_unknown_token_are_refused(make: Maker, marian_dir: Path) -> None:
    spm = (marian_dir / "source.spm").read_bytes()
    with pytest.raises(UserError, match="lacks '<unk>'"):
        load(make(source__spm=spm, target__spm=spm, vocab__json={"</s>": 0}))
