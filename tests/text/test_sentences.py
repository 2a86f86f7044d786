"""Sentences are found, doubtful ones stay together, and nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.sentences import cut_long, segments, split_sentences

some_text = st.text(alphabet="aB1 .!?…,;:\"'»)\n-*•。—\t", max_size=60)


@pytest.mark.parametrize(
    "text",
    [
        "One. | Two! | Three?",
        "Really?! | Yes.",
        "He said: “Go.” | She went.",
        '"Stop!" she cried. | He stopped.',
        "„Komm!“ rief er. | Sie kam.",
        "«Vem!» disse ele. | Ela veio.",
        "Isto custa 3.14 euros. | Aquilo custa 1.000,50.",
        "It was 1990. | Then came 1991.",
        "O Sr. Silva chegou. | A Dra. Ana saiu.",
        "Mr. Smith met Dr. Jones. | They spoke.",
        "Herr Dr. Meier kam am 3. Oktober. | Er blieb, z. B. Montag.",
        "Das kostet ca. 5 Euro, bzw. Dollar. | Gut.",
        "J. S. Bach wrote it. | So did he.",
        "He is taller than I. | She is not.",
        "Ver a pág. 12 e o art. 5. | Depois volte.",
        "Bem… não sei. | Talvez.",
        "Well... maybe. | Perhaps.",
        "He left (at last). | She stayed.",
        "¿Qué? | ¡Nada!",
        "彼は来た。|彼女も来た！|本当？",
        "Ele veio. | — Olá! | — Adeus.",
        "He said no. | She went out. | That was two years ago. | It was ten.",
        "See No. 5 and vol. 2. | Then fig. 3.",
        "see example.org for more. | Then write to a.b@c.org.",
        "no capital. after this one",
        "",
    ],
)
def test_sentences_are_found(text: str) -> None:
    wanted = [part for part in text.replace(" | ", " |").split("|") if part]
    assert split_sentences(text.replace("| ", "").replace("|", "")) == wanted


@given(some_text | st.text(max_size=40))
def test_nothing_is_lost(text: str) -> None:
    assert "".join(split_sentences(text)) == text
    for split in (True, False):
        parts = segments(text, split=split)
        assert "".join(part.text for part in parts) == text
        for part in parts:
            assert part.text
            assert not part.is_text or part.text == part.text.strip()


def test_layout_stands_between_the_sentences() -> None:
    text = "# Title\n\n  - One. Two!\n  * Three\n12) Four\n\t> Five  \n"
    read = [part.text for part in segments(text) if part.is_text]
    assert read == ["Title", "One.", "Two!", "Three", "Four", "Five"]


def test_without_splitting_only_the_outer_spaces_are_layout() -> None:
    assert [tuple(part) for part in segments("  One. Two. ", split=False)] == [
        ("  ", False),
        ("One. Two.", True),
        (" ", False),
    ]
    assert [part.is_text for part in segments(" \t ", split=False)] == [False]


def letters(text: str) -> list[int]:
    """As if each character were a token."""
    return list(range(1, len(text) + 1))


@pytest.mark.parametrize(
    ("text", "room", "parts", "clean"),
    [
        ("Aa bb. Cc dd. Ee", 14, ["Aa bb. Cc dd. ", "Ee"], True),
        ("Aa bb. Cc dd. Ee", 13, ["Aa bb. ", "Cc dd. Ee"], True),
        ("aaa, bbb; ccc", 6, ["aaa, ", "bbb; ", "ccc"], True),
        ("aaa bbb ccc", 8, ["aaa bbb ", "ccc"], False),
        ("aaaaaa", 4, ["aaaa", "aa"], False),
        ("short", 10, ["short"], True),
    ],
)
def test_long_texts_are_cut_where_it_hurts_least(text: str, room: int, parts: list[str], clean: bool) -> None:
    assert cut_long(text, letters(text), room) == (parts, clean)


@given(text=some_text, room=st.integers(1, 9))
def test_no_part_is_longer_than_asked_and_none_is_lost(text: str, room: int) -> None:
    parts, _ = cut_long(text, letters(text), room)
    assert "".join(parts) == text
    assert all(0 < len(part) <= room for part in parts)


def test_several_tokens_in_one_letter_do_not_stop_the_cutting() -> None:
    assert cut_long("😀😀", [1, 1, 1, 1, 2, 2, 2, 2], 2)[0] == ["😀", "😀"]


def test_a_million_letters_take_no_time() -> None:
    text = "Aa. b" * 200_000
    assert len(split_sentences(text)) == 1
    assert len(split_sentences("Aa. " * 250_000)) == 250_000
    assert "".join(cut_long(text, letters(text), 100)[0]) == text
    assert "".join(part.text for part in segments("." * 100_000 + "\n - " * 100_000)) != ""
