"""The decoding state keeps its contract: whatever was done to it, the next scores are those of a fresh computation."""

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from torch import Tensor
from torch.testing import assert_close

from models import tiny
from regard.errors import UserError
from regard.layers.state import KeyValueState

CLOSE = {"rtol": 0.0, "atol": 1e-5}
FAMILIES = ["gpt2", "gpt2 local", "llama", "t5", "bart"]  # learned, windowed, rotary, relative, learned with an offset
CAPACITY = 9

model_of = cache(tiny.make)
tokens, either_side = st.integers(0, tiny.VOCAB - 1), st.sampled_from(["left", "right"])


class Text:
    """One row as plain lists: what was read, where the family reads, and what was written."""

    def __init__(self, name: str, written: list[int], source: list[int] | None = None) -> None:
        self.name, self.written = name, list(written)
        self.source = (source or [5, 7, 11]) if name in tiny.SEQ2SEQ else None

    def scores(self) -> Tensor:
        """Of the next token, computed from scratch."""
        ids = torch.tensor([self.written])
        out = model_of(self.name)(ids) if self.source is None else model_of(self.name)(torch.tensor([self.source]), ids)
        return out.logits[0, -1]

    def state(self, capacity: int = CAPACITY) -> KeyValueState:
        """A state of one row that holds this text."""
        state = empty_state([self], capacity)
        if self.written:
            model_of(self.name).step(torch.tensor([self.written]), state)
        return state


def empty_state(texts: list[Text], capacity: int = CAPACITY) -> KeyValueState:
    """Room for all texts, with their sources read and nothing written yet."""
    model, sources = model_of(texts[0].name), [text.source for text in texts]
    if None in sources:
        return model.new_state(len(texts), capacity)
    ids, valid = rectangle(sources, ["left"] * len(sources))
    return model.new_state(model.encode(ids, valid), valid, capacity)


def rectangle(rows: list[list[int]], sides: list[str]) -> tuple[Tensor, Tensor]:
    """(B, T) ids and valid; padding is garbage and stands on the given side of each row."""
    width = max(map(len, rows))
    ids = torch.randint(0, tiny.VOCAB, (len(rows), width))
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for b, (row, side) in enumerate(zip(rows, sides, strict=True)):
        place = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        ids[b, place], valid[b, place] = torch.tensor(row, dtype=torch.long), True
    return ids, valid


def write(state: KeyValueState, texts: list[Text], new: list[list[int]], sides: list[str] | None = None) -> None:
    """Step by `new`, ragged or not, and compare every row that got a token with a fresh computation."""
    model = model_of(texts[0].name)
    ids, valid = rectangle(new, sides or ["right"] * len(new))
    even = sides is None and bool(valid.all())
    ours = model.step(ids, state) if even else model.step(ids, state, valid)
    assert ours.isfinite().all()
    for text, more, row in zip(texts, new, ours, strict=True):
        text.written += more
        if more:
            assert_close(row, text.scores(), **CLOSE)


def started(name: str, *written: list[int]) -> tuple[KeyValueState, list[Text]]:
    """Texts of different lengths in one state; the sources, where there are any, differ too."""
    texts = [Text(name, [], source=[3, 1, 4, 1, 5][: 2 + b]) for b in range(len(written))]
    state = empty_state(texts)
    write(state, texts, list(written), ["left"] * len(written))
    return state, texts


def assert_sound(state: KeyValueState, texts: list[Text]) -> None:
    """Lengths are right and what is beyond them is zero: a NaN left there would leak."""
    lengths = [len(text.written) for text in texts]
    assert state.lengths.tolist() == lengths
    assert state.keys_values.size(2) == len(lengths)
    for row, length in enumerate(lengths):
        assert not state.keys_values[:, :, row, :, length:].any()
        assert state.keys_values[:, :, row, :, :length].any(-1).all()


@pytest.fixture(autouse=True)
def still() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


families = pytest.mark.parametrize("name", FAMILIES)


# --- append ---------------------------------------------------------------------------------------------------------


@families
@settings(max_examples=15)
@given(st.lists(st.tuples(st.lists(tokens, min_size=1, max_size=5), either_side), min_size=1, max_size=4))
def test_prompts_padded_on_either_side_continue_as_if_alone(name: str, prompts: list[tuple[list[int], str]]) -> None:
    with torch.no_grad():
        texts = [Text(name, []) for _ in prompts]
        state = empty_state(texts)
        write(state, texts, [prompt for prompt, _ in prompts], [side for _, side in prompts])
        assert_sound(state, texts)
        for token in (1, 2):
            write(state, texts, [[token + b] for b in range(len(texts))])
        assert_sound(state, texts)


@families
def test_a_row_without_new_tokens_stays_as_it_was(name: str) -> None:
    state, texts = started(name, [1, 2, 3], [4], [5, 6])
    write(state, texts, [[7, 8], [], [9]])
    write(state, texts, [[], [10, 11, 12], []], ["left"] * 3)
    write(state, texts, [[1], [2], [3]])
    assert_sound(state, texts)


@families
def test_a_text_that_outgrows_the_state_is_the_users_error_and_harms_nothing(name: str) -> None:
    state, texts = started(name, list(range(1, 8)), [1, 2])
    model = model_of(name)
    with pytest.raises(UserError, match=f"grows to 10 tokens.*holds {CAPACITY}"):
        model.step(torch.ones(2, 3, dtype=torch.long), state)
    assert_sound(state, texts)
    write(state, texts, [[8, 9], [3, 4]])
    with pytest.raises(UserError):
        model.step(torch.ones(2, 1, dtype=torch.long), state)
    write(state, texts, [[], [5]])  # the other row still has room
    assert_sound(state, texts)


@families
def test_an_even_state_that_is_full_says_so(name: str) -> None:
    text = Text(name, list(range(CAPACITY)))
    state = text.state()
    with pytest.raises(UserError, match="shorten the prompt"):
        model_of(name).step(torch.ones(1, 1, dtype=torch.long), state)
    assert_sound(state, [text])


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_a_state_longer_than_the_learned_positions_ends_with_the_users_error(name: str) -> None:
    text = Text(name, [1] * tiny.LENGTH)
    state = text.state(tiny.LENGTH + 5)
    with pytest.raises(UserError, match=f"{tiny.LENGTH + 1} tokens"):
        model_of(name).step(torch.ones(1, 1, dtype=torch.long), state)
    assert_sound(state, [text])


def test_a_new_state_is_empty_and_zero() -> None:
    state = model_of("llama").new_state(3, CAPACITY)
    assert state.capacity == CAPACITY
    assert state.keys_values.shape == (2, 2, 3, 2, CAPACITY, 4)  # keys and values, layers, rows, heads, room, width
    assert_sound(state, [Text("llama", []) for _ in range(3)])


@families
def test_ragged_rows_may_be_written_under_autocast(name: str) -> None:
    """Keys come in bfloat16 then, and the state keeps its own precision."""
    texts = [Text(name, []), Text(name, [])]
    state, model = empty_state(texts), model_of(name)
    ids, valid = rectangle([[1, 2, 3], [4]], ["left", "left"])
    with torch.autocast("cpu", torch.bfloat16):
        ours = model.step(ids, state, valid)
    assert state.keys_values.dtype == torch.float32
    for row, text, written in zip(ours, texts, ([1, 2, 3], [4]), strict=True):
        text.written = written
        assert_close(row.float(), text.scores(), rtol=0.0, atol=0.1)
    assert_sound(state, texts)


# --- reorder, truncate, insert, free --------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("index", [[2, 0, 1], [1], [2, 2], [0, 1, 2, 0, 0], [1, 1, 1]])
def test_reorder_makes_row_i_what_row_index_i_was(name: str, index: list[int]) -> None:
    state, texts = started(name, [1, 2, 3], [4], [5, 6])
    state.reorder(torch.tensor(index))
    texts = [Text(name, texts[i].written, texts[i].source) for i in index]
    assert_sound(state, texts)
    write(state, texts, [[7 + b] for b in range(len(index))])  # twins part here
    write(state, texts, [[20 - b] for b in range(len(index))])
    assert_sound(state, texts)


@families
def test_all_rows_may_be_dropped(name: str) -> None:
    state, _ = started(name, [1, 2, 3], [4])
    state.reorder(torch.tensor([], dtype=torch.long))
    assert len(state.lengths) == 0


@families
@pytest.mark.parametrize("lengths", [[1, 1, 1], [2, 0, 1], [0, 0, 0], [3, 1, 2], [9, 0, 9]])
def test_truncate_forgets_all_but_the_first_tokens(name: str, lengths: list[int]) -> None:
    state, texts = started(name, [1, 2, 3], [4], [5, 6])
    state.truncate(torch.tensor(lengths))
    for text, length in zip(texts, lengths, strict=True):
        text.written = text.written[:length]  # to more than there is: as it was
    assert_sound(state, texts)
    write(state, texts, [[7], [8], [9]])
    write(state, texts, [[7, 1], [8, 2], [9, 3]])
    assert_sound(state, texts)


@families
@pytest.mark.parametrize("capacity", [5, CAPACITY, 20])
@pytest.mark.parametrize("row", [0, 1, 2, 3])
def test_insert_puts_a_text_into_a_slot_and_leaves_the_others_alone(name: str, row: int, capacity: int) -> None:
    state, texts = started(name, [1, 2, 3], [4], [5, 6])
    texts[row:] = [Text(name, [9, 8, 7, 6], source=[2, 7, 1, 8, 2, 8, 1]), *texts[row + 1 :]]  # the longest source
    state.insert(row, texts[row].state(capacity))
    assert_sound(state, texts)
    write(state, texts, [[10 + b] for b in range(len(texts))])
    texts[row] = Text(name, [3], source=[6])
    state.insert(row, texts[row].state(capacity))
    write(state, texts, [[10 + b] for b in range(len(texts))])
    assert_sound(state, texts)


@families
@pytest.mark.parametrize("row", [0, 2])
def test_a_text_with_more_room_gives_it_to_all_rows(name: str, row: int) -> None:
    state, texts = started(name, [1, 2, 3], [4])
    texts[row:] = [Text(name, [1] * 10), *texts[row + 1 :]]
    state.insert(row, texts[row].state(12))
    assert state.capacity == 12
    assert_sound(state, texts)
    write(state, texts, [[b + 1, b + 2] for b in range(len(texts))])
    with pytest.raises(UserError, match=r"13 tokens.*12"):
        model_of(name).step(torch.ones(len(texts), 1, dtype=torch.long), state)


@families
def test_rows_may_come_after_rows_have_left(name: str) -> None:
    """The place in memory that a row left is used again, and is zero by then."""
    state, texts = started(name, [1, 2, 3, 4, 5], [4], [5, 6])
    state.reorder(torch.tensor([2, 1]))
    texts = [texts[2], texts[1]]
    assert not state._store[:, :, 2:].any()
    for more in (Text(name, [7]), Text(name, [8, 9], source=[2])):
        texts.append(more)
        state.insert(len(texts) - 1, more.state())
        assert_sound(state, texts)
        write(state, texts, [[b] for b in range(len(texts))])
    assert_sound(state, texts)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_the_memory_is_as_wide_as_the_longest_source_that_is_left(name: str) -> None:
    state, texts = started(name, [1, 2, 3], [4])
    texts.append(Text(name, [5], source=list(range(1, 9))))
    state.insert(2, texts[2].state())
    assert state.memory[0][0].size(2) == 8
    state.reorder(torch.tensor([1, 0]))
    assert state.memory[0][0].size(2) == 3
    write(state, [texts[1], texts[0]], [[1], [2]])


@families
def test_a_freed_slot_is_empty_and_may_be_filled_again(name: str) -> None:
    state, texts = started(name, [1, 2, 3], [4], [5, 6])
    state.free(1)
    texts[1].written = []
    assert_sound(state, texts)
    write(state, texts, [[7], [], [8]])
    texts[1] = Text(name, [3, 2, 1], source=[9, 9])
    state.insert(1, texts[1].state())
    write(state, texts, [[1], [2], [3]])
    assert_sound(state, texts)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_texts_may_be_inserted_into_a_state_that_has_read_nothing_yet(name: str) -> None:
    state = model_of(name).decoder.new_state(3, CAPACITY)
    texts = [Text(name, [1, 2], source=[4, 5]), Text(name, [3], source=[6, 7, 8]), Text(name, [])]
    state.insert(0, texts[0].state())
    state.insert(1, texts[1].state())
    write(state, texts, [[5], [6], []])
    assert_sound(state, texts)


# --- any order of operations ----------------------------------------------------------------------------------------


class Operations(RuleBasedStateMachine):
    """Random operations on a state and on plain lists; `write` compares the two."""

    name: str

    @initialize(rows=st.integers(1, 3), lengths=st.lists(st.integers(1, 4), min_size=3, max_size=3))
    def start(self, rows: int, lengths: list[int]) -> None:
        torch.manual_seed(0)
        self.texts = [Text(self.name, [], source=[3, 1, 4, 1][: lengths[b]]) for b in range(rows)]
        self.vacant = [False] * rows
        with torch.no_grad():
            self.state = empty_state(self.texts)

    def fits(self, new: list[list[int]]) -> bool:
        return all(
            len(text.written) + len(more) <= self.state.capacity for text, more in zip(self.texts, new, strict=True)
        )

    def write_or_refuse(self, new: list[list[int]], sides: list[str] | None) -> None:
        with torch.no_grad():
            if self.fits(new):
                write(self.state, self.texts, new, sides)
                return
            ids, valid = rectangle(new, sides or ["left"] * len(new))
            with pytest.raises(UserError, match="grows to"):
                model_of(self.name).step(ids, self.state, None if sides is None else valid)

    @precondition(lambda self: not any(self.vacant))
    @rule(data=st.data(), steps=st.integers(1, 3))
    def append(self, data: st.DataObject, steps: int) -> None:
        rows = st.lists(tokens, min_size=steps, max_size=steps)
        self.write_or_refuse([data.draw(rows) for _ in self.texts], None)

    @precondition(lambda self: not all(self.vacant))
    @rule(data=st.data())
    def append_ragged(self, data: st.DataObject) -> None:
        new = [[] if vacant else data.draw(st.lists(tokens, max_size=3)) for vacant in self.vacant]
        if any(new):
            self.write_or_refuse(new, [data.draw(either_side) for _ in new])

    @rule(data=st.data())
    def reorder(self, data: st.DataObject) -> None:
        index = data.draw(st.lists(st.integers(0, len(self.texts) - 1), min_size=1, max_size=4))
        self.state.reorder(torch.tensor(index))
        self.texts = [Text(self.name, self.texts[i].written, self.texts[i].source) for i in index]
        self.vacant = [self.vacant[i] for i in index]

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        lengths = [data.draw(st.integers(0, len(text.written) + 1)) for text in self.texts]
        self.state.truncate(torch.tensor(lengths))
        for text, length in zip(self.texts, lengths, strict=True):
            text.written = text.written[:length]

    @rule(data=st.data(), written=st.lists(tokens, max_size=5), source=st.lists(tokens, min_size=1, max_size=6))
    def insert(self, data: st.DataObject, written: list[int], source: list[int]) -> None:
        row = data.draw(st.integers(0, min(len(self.texts), 4)))
        self.texts[row:] = [Text(self.name, written, source), *self.texts[row + 1 :]]
        self.vacant[row:] = [False, *self.vacant[row + 1 :]]
        with torch.no_grad():
            self.state.insert(row, self.texts[row].state(data.draw(st.integers(5, 12))))

    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        row = data.draw(st.integers(0, len(self.texts) - 1))
        self.state.free(row)
        self.texts[row].written = []
        self.vacant[row] = True

    @invariant()
    def sound(self) -> None:
        assert_sound(self.state, self.texts)


@families
def test_any_order_of_operations_equals_plain_lists(name: str) -> None:
    machine = type("Operations", (Operations,), {"name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=20, deadline=None))
