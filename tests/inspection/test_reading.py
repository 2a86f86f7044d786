"""Tokens keep their names and places, words are found however they are asked for, and hooks come off."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from inspection import readings
from models import tiny
from regard.errors import UserError
from regard.inspection.reading import Tokens, read_text, read_translation, tokens_of, watching
from tasks.translators import tokenizer, translator


def test_a_text_is_read_as_the_task_reads_it() -> None:
    model = tiny.make("bert", vocab_size=tokenizer().vocab_size, max_len=64)
    reading = read_text(model, tokenizer(), "O livro")
    ids = tokenizer().encode("O livro").ids
    assert reading.source is not None
    assert reading.source.ids == tuple(ids)
    assert reading.source.special[-1]
    with torch.no_grad():
        assert_close(reading.run().hidden, model(torch.tensor([ids])).hidden)
    assert reading.kinds == ("encoder",)
    with pytest.raises(UserError, match="the text is empty"):
        read_text(model, _bare(), "")


def _bare() -> object:
    class Nothing:
        def encode(self, *_: object) -> object:
            return tokenizer().encode("", special=False)

        is_silent = staticmethod(tokenizer().is_silent)

    return Nothing()


def test_a_pair_keeps_its_segments() -> None:
    model = tiny.make("bert", vocab_size=tokenizer().vocab_size, max_len=64)
    reading = read_text(model, tokenizer(), "O livro", "A casa")
    assert reading.source is not None
    assert len(reading.source.segments) == len(reading.source.ids)
    assert read_text(tiny.make("gpt2"), tokenizer(), "O livro").target.segments == ()  # type: ignore[union-attr]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_spans_point_at_what_a_token_stands_for(text: str) -> None:
    found = tokens_of(tokenizer(), text)
    assert len(found.names) == len(found.words) == len(found.ids) == len(found.spans)
    for start, end in found.spans:
        assert 0 <= start <= end <= len(text)
    assert list(found.words) == sorted(found.words)


def test_a_translation_is_read_as_it_was_written() -> None:
    result = translator()("O livro está em cima da mesa.", beam=2)
    reading = result.reading
    assert reading.kinds == ("encoder", "decoder", "cross")
    assert reading.written is not None
    assert reading.target is not None
    assert reading.target.ids[1:] == reading.written.ids[:-1]
    assert reading.target.ids[0] == reading.model.config.start_id
    with torch.no_grad():
        logits = reading.run().logits[0]
    logits[:, reading.model.config.pad_id] = -torch.inf  # which is never written
    ids = torch.tensor(reading.written.ids)
    total = float(logits.log_softmax(-1).gather(1, ids[:, None]).sum())
    assert total == pytest.approx(result.log_probability, abs=1e-3)


def test_what_was_read_differently_from_its_text_is_named_by_its_ids() -> None:
    both = tokenizer(), tokenizer()
    reading = read_translation(translator().model, both, "O livro", [5, 6, 7], [8, 9, 0])
    assert reading.source is not None
    assert reading.source.ids == (5, 6, 7)
    assert len(reading.source.names) == len(reading.source.special) == 3


TOKENS = Tokens(("The", "ta", "ble", ".", "Le", "table", "</s>"), (0, 1, 1, 1, 2, 3, 4), (False,) * 6 + (True,))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("table", [5]),
        ("table.", [1]),
        ("The", [0]),
        ("the", [0]),
        ("ble", [2]),
        ("#3", [3]),
        ("</s>", [6]),
        ("LE", [4]),
    ],
)
def test_words_are_found_whole_first_then_bare_then_as_pieces(asked: str, found: list[int]) -> None:
    assert TOKENS.find(asked) == found


@pytest.mark.parametrize("asked", ["chair", "#7", "#-1", "", "#"])
def test_what_is_not_there_is_refused_with_what_is(asked: str) -> None:
    with pytest.raises(UserError, match=r"the tokens are #0 The #1 ta"):
        TOKENS.find(asked)


def test_padding_is_behind_and_marked() -> None:
    found = TOKENS.padded(9, 0)
    assert len(found) == 9
    assert found.valid == (True,) * 7 + (False,) * 2
    assert found.words[-2:] == (5, 6)


def test_watching_ends_with_an_error_too() -> None:
    reading = readings.make("bert")
    module = reading.module("encoder", 0)
    broken = partial(_look, reading)
    with pytest.raises(RuntimeError), watching({"x": module}):
        broken()
    assert not module._forward_hooks


def _look(_: object) -> None:
    raise RuntimeError
