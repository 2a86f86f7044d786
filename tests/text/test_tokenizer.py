"""The one class: what it promises for any text, what it saves, what it refuses."""

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors
from transformers import AutoTokenizer, MarianTokenizer

import regard
from regard.errors import UserError
from regard.text.load import load, load_pair
from regard.text.tokenizer import Tokenizer


def tiny(**options: Any) -> Tokenizer:
    core = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return Tokenizer(core, special={"unk": "[UNK]"}, **options)


# ---- for any text


@given(text=st.text())
def test_byte_level_text_comes_back_exactly(gpt2: Tokenizer, text: str) -> None:
    assert gpt2.decode(gpt2.encode(text).ids, skip_special=False) == text  # it may spell <|endoftext|>


@settings(max_examples=50)
@given(text=st.text())
def test_offsets_stay_inside_the_text_and_move_forward(any_kind: Tokenizer, text: str) -> None:
    found = any_kind.encode(text, special=False)
    assert len(found.ids) == len(found.tokens) == len(found.offsets) == len(found.segments)
    starts = [start for start, _ in found.offsets]
    assert starts == sorted(starts)
    assert all(0 <= start <= end <= len(text) for start, end in found.offsets)


@given(text=st.text())
def test_byte_level_offsets_cover_the_whole_text(gpt2: Tokenizer, text: str) -> None:
    covered = {place for start, end in gpt2.encode(text).offsets for place in range(start, end)}
    assert covered == set(range(len(text)))


@given(text=st.text(alphabet=st.characters(max_codepoint=126)))
def test_wordpiece_offsets_point_at_the_letters_of_the_token(bert: Tokenizer, text: str) -> None:
    found = bert.encode(text, special=False)
    for token, (start, end) in zip(found.tokens, found.offsets, strict=True):
        assert token in ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]") or (
            token.removeprefix("##") == "".join(char for char in text[start:end].lower() if char.isprintable())
        )


@settings(max_examples=50)
@given(text=st.text(), pair=st.text())
def test_ids_have_tokens_and_tokens_have_ids(any_kind: Tokenizer, text: str, pair: str) -> None:
    found = any_kind.encode(text, pair)
    assert [any_kind.id_of(token) for token in found.tokens] == found.ids
    assert [any_kind.token_of(id) for id in found.ids] == found.tokens


@settings(max_examples=30)
@given(texts=st.lists(st.text(), max_size=4))
def test_a_batch_is_its_texts_one_by_one(any_kind: Tokenizer, texts: list[str]) -> None:
    one_by_one = [any_kind.encode(text) for text in texts]
    assert any_kind.encode_batch(texts) == one_by_one
    assert any_kind.encode_ids(texts) == [one.ids for one in one_by_one]
    pairs = [any_kind.encode(text, pair) for text, pair in zip(texts, texts[::-1], strict=True)]
    assert any_kind.encode_batch(texts, texts[::-1]) == pairs


@settings(max_examples=30)
@given(text=st.text(), pair=st.text())
def test_each_token_of_a_pair_is_known_to_be_of_one_text_or_added(any_kind: Tokenizer, text: str, pair: str) -> None:
    found = any_kind.encode(text, pair)
    assert len(found.parts) == len(found)
    for number, part in enumerate((text, pair)):
        own = [id for id, owner in zip(found.ids, found.parts, strict=True) if owner == number]
        assert own == any_kind.encode(part, special=False).ids


@settings(max_examples=50)
@given(ids=st.lists(st.integers(0, 70_000)))
def test_any_ids_decode_to_text(any_kind: Tokenizer, ids: list[int]) -> None:
    assert isinstance(any_kind.decode(ids), str)


# ---- ids


def test_ids_of_arrays_are_taken(bert: Tokenizer) -> None:
    assert bert.decode(np.array([7592, 2088])) == "hello world"


@pytest.mark.parametrize("id", [-1, -100, 1 << 32, 1 << 70])
def test_numbers_that_are_no_ids_are_refused(bert: Tokenizer, id: int) -> None:
    with pytest.raises(UserError, match="not a token id"):
        bert.decode([id])
    with pytest.raises(UserError, match="no token has the id"):
        bert.token_of(id)


def test_special_tokens_are_shown_or_hidden(bert: Tokenizer) -> None:
    ids = bert.encode("hello").ids
    assert bert.decode(ids) == "hello"
    assert bert.decode(ids, skip_special=False) == "[CLS] hello [SEP]"
    assert bert.encode("hello", special=False).ids == [7592]


def test_an_unknown_token_has_no_id(any_kind: Tokenizer) -> None:
    assert any_kind.id_of("there is no such token") is None


def test_vocabulary_size_is_the_largest_id_and_one() -> None:
    core = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 7}, unk_token="[UNK]"))
    assert Tokenizer(core, special={}).vocab_size == 8


def test_padding_and_end_may_be_one_token(make: Callable[..., Path], gpt2_files: dict[str, bytes]) -> None:
    same = load(make(**gpt2_files, special_tokens_map__json={"pad_token": "<|endoftext|>"}))
    assert same.pad_id == same.eos_id == 50256


# ---- errors


def test_a_vocabulary_larger_than_the_embedding_is_refused(bert: Tokenizer) -> None:
    bert.check_fits(30522)
    with pytest.raises(UserError, match=r"id 30521, but the model has 30521 rows"):
        bert.check_fits(30521)


def test_a_special_token_outside_the_vocabulary_is_refused() -> None:
    core = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(UserError, match=r"pad token '<pad>' is not in the vocabulary"):
        Tokenizer(core, special={"pad": "<pad>"})


def test_a_template_that_adds_ids_of_no_token_is_refused() -> None:
    core = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    core.post_processor = processors.RobertaProcessing(("x", 4294967295), ("y", 9))
    with pytest.raises(UserError, match="outside the vocabulary"):
        Tokenizer(core, special={})


def test_text_beyond_the_cap_is_refused_before_any_work() -> None:
    short = tiny(max_chars=10)
    assert short.encode("a " * 5).ids == [1] * 5
    for refuse in (short.encode, lambda text: short.encode("a", text), lambda text: short.encode_batch([text])):
        with pytest.raises(UserError, match="11 characters; at most 10"):
            refuse("a" * 11)


def test_a_long_run_of_one_letter_is_no_trouble(any_kind: Tokenizer) -> None:
    assert any_kind.encode("a" * 100_000).ids


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff no"])
def test_half_a_character_is_refused_with_its_place(bert: Tokenizer, text: str) -> None:
    place = next(index for index, char in enumerate(text) if "\ud800" <= char <= "\udfff")
    with pytest.raises(UserError, match=f"lone surrogate.* at position {place}"):
        bert.encode(text)


def test_control_characters_and_nul_are_taken(any_kind: Tokenizer) -> None:
    any_kind.encode("".join(chr(code) for code in range(32)))


# ---- saving


@pytest.mark.parity
def test_a_saved_tokenizer_opens_in_transformers_with_the_same_ids(
    any_directory: Path, any_kind: Tokenizer, lines: list[str], tmp_path: Path
) -> None:
    if (any_directory / "source.spm").exists():
        pytest.skip("Marian's files have a test of their own")
    any_kind.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for line in lines:
        assert theirs(line)["input_ids"] == any_kind.encode(line).ids, line
    pair = theirs("one", "two")
    assert pair["input_ids"] == any_kind.encode("one", "two").ids
    assert pair.get("token_type_ids", [0] * len(pair["input_ids"])) == any_kind.encode("one", "two").segments or (
        "token_type_ids" not in pair
    )
    for role, token in any_kind.special.items():
        assert getattr(theirs, f"{role}_token") == token


@pytest.mark.parity
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "marian"])
def test_a_saved_tokenizer_opens_beside_the_configuration_of_any_family(
    bert: Tokenizer, make: Callable[..., Path], lines: list[str], family: str
) -> None:
    directory = make(config__json={"model_type": family})
    bert.save(directory)
    theirs = AutoTokenizer.from_pretrained(directory)
    for line in lines[::10]:
        assert theirs(line)["input_ids"] == bert.encode(line).ids, line


def test_a_saved_tokenizer_is_the_same_when_opened_again(any_kind: Tokenizer, lines: list[str], tmp_path: Path) -> None:
    any_kind.save(tmp_path)
    again = load(tmp_path)
    assert again.special == any_kind.special
    assert again.encode_ids(lines[::4]) == any_kind.encode_ids(lines[::4])


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:Recommended")
def test_saved_marian_files_open_in_transformers(marian_dir: Path, lines: list[str], tmp_path: Path) -> None:
    source, _ = load_pair(marian_dir)
    source.save(tmp_path)
    theirs = MarianTokenizer.from_pretrained(tmp_path)
    for line in lines[::5]:
        assert theirs(line)["input_ids"] == source.encode(line).ids, line


def test_segments_are_promised_where_the_template_has_them(bert: Tokenizer, gpt2: Tokenizer, tmp_path: Path) -> None:
    for tokenizer, options, expected in ((bert, {}, True), (bert, {"segments": False}, False), (gpt2, {}, False)):
        tokenizer.save(tmp_path, **options)
        written = (tmp_path / "tokenizer_config.json").read_text("utf-8")
        assert ("token_type_ids" in written) is expected


def test_the_chat_template_is_saved_and_read_again(tmp_path: Path) -> None:
    tiny(chat_template="{{ messages }}").save(tmp_path)
    assert load(tmp_path).chat_template == "{{ messages }}"


def test_saving_leaves_no_other_files_and_replaces_old_ones(tmp_path: Path) -> None:
    for _ in range(2):
        tiny().save(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny().save(tmp_path)
    before = (tmp_path / "tokenizer.json").read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match="No space left"):
        tiny(chat_template="x").save(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_a_tokenizer_travels_to_other_processes(any_kind: Tokenizer) -> None:
    assert pickle.loads(pickle.dumps(any_kind)).encode("a text").ids == any_kind.encode("a text").ids


# ---- its rules


def test_the_rules_of_a_tokenizer_can_be_read_and_replaced(gpt2: Tokenizer) -> None:
    rules = json.loads(gpt2.definition)
    rules["model"]["merges"] = []
    letters = gpt2.with_definition(json.dumps(rules))
    assert letters.encode("told").tokens == list("told")
    assert gpt2.encode("told").tokens == ["told"]
    assert (letters.special, letters.vocab_size, letters.is_byte_level) == (gpt2.special, gpt2.vocab_size, True)
    assert letters.word_numbers("a told") == [0, 1, 1, 1, 1, 1]
    with pytest.raises(UserError, match="copying the tokenizer failed"):
        gpt2.with_definition("{}")


def test_no_other_file_reaches_into_the_library_s_object() -> None:
    folder = Path(regard.__file__).parent
    found = {path.name for path in folder.rglob("*.py") if re.search(r"\w\._core\b", path.read_text("utf-8"))}
    assert found == {"tokenizer.py"}
