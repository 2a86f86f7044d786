"""A text ends before its first stop string however it is cut into pieces, and no letter is shown too early."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faults.refusal import refused
from regard.tasks.stopping import Stopping

letters = st.text("ab\n", max_size=12)
stops = st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3)


def cut(text: str, places: list[int]) -> list[str]:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(borders)]


def first_complete(text: str, stop: list[str]) -> str | None:
    """Letter by letter: the readable twin."""
    for end in range(1, len(text) + 1):
        if found := [each for each in stop if text[:end].endswith(each)]:
            return text[: end - max(map(len, found))]
    return None


@given(letters, stops, st.lists(st.integers(0, 12), max_size=8))
@example("aab", ["ab"], [1, 2])
@example("abc", ["abc", "b"], [])
def test_the_text_ends_before_the_first_stop_string_that_is_complete(
    text: str, stop: list[str], places: list[int]
) -> None:
    stopping, shown = Stopping(stop), ""
    for piece in cut(text, places):
        shown += stopping.add(piece)
        if stopping.is_over:
            break
    else:
        shown += stopping.end()
    expected = first_complete(text, stop)
    assert (shown, stopping.is_over) == (text if expected is None else expected, expected is not None)


@given(letters, stops)
def test_what_may_begin_a_stop_string_is_held_and_nothing_else(text: str, stop: list[str]) -> None:
    stopping, read, shown = Stopping(stop), "", ""
    for letter in text:
        read, shown = read + letter, shown + stopping.add(letter)
        if stopping.is_over:
            return
        held = read[len(shown) :]
        assert read.startswith(shown)
        assert not held or any(each.startswith(held) for each in stop)
        assert not any(read.endswith(each[:n]) for each in stop for n in range(len(held) + 1, len(each)))


@pytest.mark.parametrize("stop", [[""], ["a", ""]])
def test_an_empty_stop_string_is_refused(stop: list[str]) -> None:
    with refused("a stop string is empty"):
        Stopping(stop)


def test_one_text_for_a_list_is_refused() -> None:
    with refused("one stop string", "stop=[text]"):
        Stopping("END")
