"""Long texts as overlapping windows, each as long as a model reads at once, for tagging and for answering.

A text stands alone, or behind a question that every window repeats. The windows are those of transformers'
`return_overflowing_tokens` (for answering with `truncation="only_second"`). A word is read, and learnt, in the one
window that shows most around it; an answer in every window that holds it whole.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import UserError
from regard.text.tokenizer import Encoding, Tokenizer

STRIDE = 128
"Tokens that a window shares with the one before it."
IGNORED = -100
"The label of a token that is not to be learnt; torch's own."

Place = tuple[int, int]
"Number of a window, and of a token in its ids."


@dataclass(frozen=True)
class Window:
    ids: list[int]
    segments: list[int]
    start: int
    "Where in the ids the text's tokens begin."
    offsets: list[tuple[int, int]]
    "Where each of the text's tokens in this window stands in the text, in characters."
    first: int
    "The number of the first of them among all of the text's tokens."
    covers: tuple[int, int]
    "The characters between the tokens before and behind this window: of them it lacks nothing."

    @property
    def text_ids(self) -> slice:
        return slice(self.start, self.start + len(self.offsets))


def windows_of(
    tokenizer: Tokenizer, text: str, question: str | None = None, *, max_len: int, stride: int = STRIDE
) -> list[Window]:
    """At least one, also of an empty text. Windows share at most half of what they have room for."""
    found = tokenizer.encode(text) if question is None else tokenizer.encode(question, text)
    part = 0 if question is None else 1
    n_tokens = found.parts.count(part)
    start = found.parts.index(part) if n_tokens else 0
    assert set(found.parts[start : start + n_tokens]) <= {part}, "a template that repeats the text"
    room = max_len - (len(found) - n_tokens)
    _check_room(room, max_len, question is not None)
    step = room - min(stride, room // 2)
    n_windows = 1 + max(0, -((room - n_tokens) // step))
    return [_window(found, slice(start, start + n_tokens), i * step, room, len(text)) for i in range(n_windows)]


def _check_room(room: int, max_len: int, has_question: bool) -> None:
    least = -(-max_len // 4) if has_question else 1
    if room >= least:
        return
    what, hint = "what stands around each text", "give a model that reads more"
    if has_question:
        what, hint = "the question and what stands around it", "shorten the question"
    raise UserError(
        f"the model reads {max_len} tokens at once, and {what} are {max_len - room}",
        f"{hint}: at least {least} must be left for the text",
    )


def _window(found: Encoding, whole: slice, first: int, room: int, n_chars: int) -> Window:
    """The tokens of the text from number `first` on, between all that stands around the text."""
    cut = slice(whole.start + first, min(whole.start + first + room, whole.stop))

    def around(row: list[int]) -> list[int]:
        return [*row[: whole.start], *row[cut], *row[whole.stop :]]

    covers = (
        found.offsets[cut.start - 1][1] if first else 0,
        found.offsets[cut.stop][0] if cut.stop < whole.stop else n_chars,
    )
    return Window(around(found.ids), around(found.segments), whole.start, found.offsets[cut], first, covers)


def offsets_of(windows: Sequence[Window]) -> list[tuple[int, int]]:
    """Of all tokens of the text, each once."""
    found: list[tuple[int, int]] = []
    for window in windows:
        found += window.offsets[len(found) - window.first :]
    return found


def places_of(windows: Sequence[Window], tokens: Sequence[int | None]) -> list[Place | None]:
    """Where the text's tokens of these numbers are read: in the window that has most tokens on their poorer side."""
    firsts = [window.first for window in windows]
    return [None if token is None else _place(windows, firsts, token) for token in tokens]


def _place(windows: Sequence[Window], firsts: list[int], token: int) -> Place:
    def poorer(number: int) -> int:
        i = token - firsts[number]
        return min(i, len(windows[number].offsets) - 1 - i)

    last = bisect_right(firsts, token) - 1
    number = max(
        range(max(0, last - 1), last + 1), key=poorer
    )  # no token is in more than two; negative where it is not
    return number, windows[number].start + token - firsts[number]


def labels_of(windows: Sequence[Window], first_tokens: Sequence[int | None], labels: Sequence[int]) -> list[list[int]]:
    """For each window a label for each of its ids: that of the word which is read there, IGNORED elsewhere.

    `first_tokens` and `labels` have one entry a word (see words.first_tokens); each word counts once over all windows.
    """
    rows = [[IGNORED] * len(window.ids) for window in windows]
    for place, label in zip(places_of(windows, first_tokens), labels, strict=True):
        if place is not None:
            rows[place[0]][place[1]] = label
    return rows


def span_of(window: Window, start: int, end: int) -> tuple[int, int]:
    """First and last place in the ids of an answer given by its characters; (0, 0) where it is not whole in here."""
    touched = [i for i, (left, right) in enumerate(window.offsets) if left < end and start < right]
    if not touched or start < window.covers[0] or end > window.covers[1]:
        return 0, 0
    return window.start + touched[0], window.start + touched[-1]
