"""Figures say what the numbers say, on a terminal and as SVG."""

import xml.etree.ElementTree as xml

import pytest
import torch
from rich.cells import cell_len

from regard.decoding.tree import Node, Tree
from regard.inspection.alignment import Alignment
from regard.inspection.figures import alignment_svg, alignment_text, shade, tree_text

SVG = "{http://www.w3.org/2000/svg}"
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


def test_tokens_of_a_word_come_together_and_rows_keep_their_sum() -> None:
    tokens = Alignment(
        ("bo", "ok", "!"), ("li", "vro", "a"), torch.tensor([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0, 0, 1.0]])
    )
    words = tokens.grouped([0, 0, 1], [0, 0, 1])
    assert (words.target, words.source) == (("book", "!"), ("livro", "a"))
    torch.testing.assert_close(words.weights, torch.tensor([[0.5, 0.5], [0.0, 1.0]]))


def test_the_svg_has_every_number_and_survives_any_word() -> None:
    alignment = Alignment(("<b>&\x00", "ok"), ('"q"', "\ud800x"), torch.tensor([[0.25, 0.75], [1.0, 0.0]]))
    root = xml.fromstring(alignment_svg(alignment).encode("utf-8"))
    squares = root.findall(f"{SVG}rect")
    assert [float(square.attrib["fill-opacity"]) for square in squares] == [0.25, 0.75, 1.0, 0.0]
    title = squares[0].find(f"{SVG}title")
    assert title is not None
    assert title.text == '<b>&� ← "q": 0.2500'
    assert [text.text for text in root.findall(f"{SVG}text")] == ['"q"', "�x", "<b>&�", "ok"]
    assert sum("rotate" in text.attrib.get("transform", "") for text in root.findall(f"{SVG}text")) == 2
    style = root.find(f"{SVG}style")
    assert style is not None
    light, dark = (style.text or "").split("@media (prefers-color-scheme: dark)")
    assert all("background: #" in each for each in (light, dark))  # never light text on a page that stays white
    assert root.attrib["class"] == "alignment"
    assert all(rule.startswith(".alignment") for rule in light.strip().splitlines())  # on a page it styles itself alone


def test_everything_stays_inside_the_svg() -> None:
    root = xml.fromstring(alignment_svg(ALIGNMENT))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for square in root.findall(f"{SVG}rect"):
        assert float(square.attrib["x"]) + float(square.attrib["width"]) <= width
        assert float(square.attrib["y"]) + float(square.attrib["height"]) <= height


def test_a_long_word_is_cut_and_whole_under_the_pointer() -> None:
    word = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk"
    root = xml.fromstring(alignment_svg(Alignment((word, "a"), (word, "b"), torch.ones(2, 2) / 2)))
    long = [text for text in root.findall(f"{SVG}text") if text.text and text.text.startswith("Donau")]
    assert [text.text for text in long] == ["Donaudampfschifffahrtse…"] * 2
    assert [text.findtext(f"{SVG}title") for text in long] == [word] * 2
    assert float(root.attrib["width"]) < 260
    assert [text.find(f"{SVG}title") for text in root.findall(f"{SVG}text") if text.text in ("a", "b")] == [None] * 2


@pytest.mark.parametrize(
    ("word", "pixels"),
    # As Chromium drew them at 12px with DejaVu, Noto and WenQuanYi.
    [
        ("பல்கலைக்கழகங்கள்", 133),
        ("တက္ကသိုလ်များ", 74),
        ("😀😀👩‍👩‍👧‍👦🇵🇹❤️", 74),
        ("コンピューターサイエンス", 144),
        ("Достопримечательность", 152),
    ],
)
def test_words_of_every_script_have_room(word: str, pixels: int) -> None:
    root = xml.fromstring(alignment_svg(Alignment((word,), ("a",), torch.ones(1, 1))))
    label = root.findall(f"{SVG}text")[1]
    assert float(label.attrib["x"]) - pixels >= 0


def test_a_wide_word_is_cut_by_its_cells_on_a_terminal() -> None:
    rows = alignment_text(Alignment(("机" * 30,), ("a",), torch.ones(1, 1))).split("\n")
    assert rows[1].startswith("机" * 7 + "…")
    assert rows[1].endswith("█")
    assert cell_len(rows[1]) == cell_len(rows[0])


def node(id: int, parent: int | None, token: int | None, step: int, score: float = -1.0, **end: object) -> Node:
    return Node(id, parent, token, step, -1.0, score * max(step, 1), score, **end)  # type: ignore[arg-type]


def test_a_tree_is_a_line_a_branch() -> None:
    tree = Tree(
        (
            node(0, None, None, 0),
            node(1, 0, 1, 1, -0.1),
            node(2, 0, 2, 1, -0.4, reason="pruned", rank=3),
            node(3, 1, 3, 2, -0.2),
            node(4, 3, 4, 3, -0.3, reason="chosen", rank=1),
            node(5, 3, 5, 3, -0.9, reason="limit", rank=2),
        )
    )
    assert tree_text(tree, lambda id: "?abcde"[id]).split("\n") == [
        "(start)",
        "├─ a c  -0.200",
        "│  ├─ d  -0.300  chosen: best of 2 finished",
        "│  └─ e  -0.900  cut at 3 tokens, the limit: rank 2 of 2",
        "└─ b  -0.400  pruned at rank 3",
    ]


def test_paths_that_never_were_in_the_beam_are_counted_unless_asked_for() -> None:
    tree = Tree(
        (
            node(0, None, None, 0),
            node(1, 0, 1, 1, -0.1),
            node(2, 0, 2, 1, -0.4),
            node(3, 1, 3, 2, -0.2, reason="chosen", rank=1),
            node(4, 1, 4, 2, -0.9, reason="pruned", rank=3),
            node(5, 2, 5, 2, -0.9, reason="pruned", rank=4),
        )
    )
    assert tree_text(tree, lambda id: "?abcde"[id], whole=False).split("\n") == [
        "(start)",
        "├─ a c  -0.200  chosen: the only one finished",
        "└─ b  -0.400  dropped: all its continuations were pruned",
        "(2 paths that never were in the beam are not shown)",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_a_tree_is_as_wide_as_the_terminal_and_says_why_to_the_end(width: int) -> None:
    chain = [node(0, None, None, 0), *(node(i, i - 1, 1, i) for i in range(1, 60))]
    tree = Tree((*chain, node(60, 59, 1, 60, -0.5, reason="chosen", rank=1)))
    shown = tree_text(tree, lambda _: "本a", width=width)
    assert cell_len(shown) <= width
    assert "…" in shown
    assert width < 60 or shown.endswith("chosen: the only one finished")


@pytest.mark.parametrize("depth", [5_000])
def test_a_deep_tree_is_no_trouble(depth: int) -> None:
    chain = [node(0, None, None, 0), *(node(i, i - 1, 1, i) for i in range(1, depth))]
    assert tree_text(Tree(tuple(chain)), str).startswith("(start) 1 1 1")
