"""Numbers on a terminal say what the numbers say."""

import pytest
import torch
from rich.cells import cell_len

from regard.inspection.alignment import Alignment
from regard.inspection.figures.shades import alignment_text, bar, shade, strip

ALIGNMENT = Alignment(("The", "book", "</s>"), ("O", "livro"), torch.tensor([[0.9, 0.1], [0.02, 0.98], [0.5, 0.5]]))


def test_words_are_across_and_down_with_a_shade_for_each_pair() -> None:
    assert alignment_text(ALIGNMENT).split("\n") == [
        "      O  livro",
        "The   █  ░░░░░",
        "book     █████",
        "</s>  ▓  ▓▓▓▓▓",
    ]


def test_shades_grow_with_the_weight() -> None:
    assert "".join(shade(weight / 10) for weight in range(11)) == " ░░▒▒▓▓▓███"


def test_what_does_not_fit_beside_comes_below() -> None:
    shown = alignment_text(ALIGNMENT, width=12)
    first, second = shown.split("\n\n")
    assert first.split("\n")[0].split() == ["O"]
    assert second.split("\n")[0].split() == ["livro"]


def test_wide_letters_and_long_words_keep_the_columns_straight() -> None:
    alignment = Alignment(("本", "a" * 30), ("机の上", "x\x1b[31m"), torch.ones(2, 2))
    rows = alignment_text(alignment).split("\n")
    assert cell_len(rows[1]) == cell_len(rows[2])
    assert "\x1b" not in "".join(rows)
    assert "a…" in rows[2]


def test_a_wide_word_is_cut_by_its_cells_on_a_terminal() -> None:
    rows = alignment_text(Alignment(("机" * 30,), ("a",), torch.ones(1, 1))).split("\n")
    assert rows[1].startswith("机" * 7 + "…")
    assert rows[1].endswith("█")
    assert cell_len(rows[1]) == cell_len(rows[0])


@pytest.mark.parametrize(
    ("share", "shown"), [(0, "    "), (1, "████"), (0.5, "██  "), (0.28, "█▏  "), (2, "████"), (-1, "    ")]
)
def test_a_bar_is_as_long_as_its_share(share: float, shown: str) -> None:
    assert bar(share, 4) == shown


def test_a_strip_has_a_letter_a_number_low_to_high() -> None:
    assert strip([-1, 0.0, 1, 9, -9], 1.0) == "▁▅██▁"
    assert strip([0.0, 0.0], 0.0) == "▅▅"
