"""The SVG is sound XML whatever the words, readable light and dark, and touches nothing around it."""

import base64
import xml.etree.ElementTree as xml

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.inspection.figures.bars import bars
from regard.inspection.figures.curves import curves
from regard.inspection.figures.drawing import COLOURS, Drawing, Line, Pixels, Rect, Text, below
from regard.inspection.figures.heat import heat_map
from regard.inspection.figures.links import links
from regard.inspection.figures.svg import style, svg
from regard.inspection.figures.table import table

SVG = "{http://www.w3.org/2000/svg}"
words = st.lists(st.text(max_size=40), min_size=1, max_size=4)


def parsed(drawing: Drawing) -> xml.Element:
    return xml.fromstring(svg(drawing).encode("utf-8"))


def squares(root: xml.Element) -> list[xml.Element]:
    return [each for each in root.findall(f"{SVG}rect") if each.find(f"{SVG}title") is not None]


def test_a_heat_map_has_every_number_and_survives_any_word() -> None:
    rows, columns = ("<b>&\x00", "ok"), ('"q"', "\ud800x")
    root = parsed(heat_map(torch.tensor([[0.25, 0.75], [1.0, 0.0]]), rows, columns, title="<t>"))
    found = squares(root)
    assert [float(each.attrib["fill-opacity"]) for each in found] == [0.25, 0.75, 1.0, 0.0]
    assert found[0].findtext(f"{SVG}title") == '<b>&� → "q": 0.2500'
    texts = [each.text for each in root.findall(f"{SVG}text")]
    assert texts[:5] == ["<t>", '"q"', "�x", "<b>&�", "ok"]
    assert sum("rotate" in each.attrib.get("transform", "") for each in root.findall(f"{SVG}text")) == 2


def test_the_largest_of_each_row_has_an_edge_of_its_own() -> None:
    root = parsed(heat_map(torch.tensor([[0.2, 0.8], [-0.9, 0.1]]), "ab", "xy", title=""))
    edged = [each.findtext(f"{SVG}title") for each in squares(root) if "ink-edge" in each.attrib["class"]]
    assert edged == ["a → y: 0.8000", "b → x: -0.9000"]
    assert [each.attrib["class"].split()[0] for each in squares(root)] == ["mark", "mark", "minus", "mark"]


@given(words, words)
def test_any_words_make_sound_xml_that_can_be_read_aloud(rows: list[str], columns: list[str]) -> None:
    values = torch.full((len(rows), len(columns)), 0.5)
    title = rows[0] + columns[0]
    for drawing in (
        heat_map(values, rows, columns, title=title),
        links(values, rows, columns, title=title),
        bars(rows, [0.5] * len(rows), title=title),
        table(columns, [columns], title=title),
    ):
        root = parsed(drawing)
        assert root.attrib["role"] == "img"
        assert [child.tag for child in root[:2]] == [f"{SVG}title", f"{SVG}desc"]


def test_everything_stays_inside() -> None:
    long = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk"
    values = torch.tensor([[0.3, -0.7], [0.5, 0.1]])
    for drawing in (
        heat_map(values, (long, "a"), (long, "b"), title="x"),
        heat_map(torch.zeros(60, 90), [str(i) for i in range(60)], [str(i) for i in range(90)], title="x"),
        links(values.abs(), (long, "a"), (long, "b"), title="x"),
        bars(("a", "b"), (3.0, -2.0), title="x"),
        curves([0, 1, 2], {"a": [1.0, -3.0, 2.0]}, title="x", axis="t"),
        below([bars(("a",), (1.0,), title="x"), bars(("b",), (2.0,), title="y")], "both"),
    ):
        for item in drawing.items:
            if isinstance(item, Rect | Pixels):
                assert 0 <= item.x <= item.x + item.width <= drawing.width
                assert 0 <= item.y <= item.y + item.height <= drawing.height
            if isinstance(item, Line):
                assert 0 <= min(item.x, item.to_x) <= max(item.x, item.to_x) <= drawing.width
                assert 0 <= min(item.y, item.to_y) <= max(item.y, item.to_y) <= drawing.height
            if isinstance(item, Text):
                assert 0 <= item.x <= drawing.width
                assert 0 <= item.y <= drawing.height


def test_a_long_word_is_cut_and_whole_under_the_pointer() -> None:
    word = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk"
    root = parsed(heat_map(torch.ones(2, 2) / 2, (word, "a"), (word, "b"), title=""))
    long = [text for text in root.findall(f"{SVG}text") if text.text and text.text.startswith("Donau")]
    assert [text.text for text in long] == ["Donaudampfschifffahrtse…"] * 2
    assert [text.findtext(f"{SVG}title") for text in long] == [word] * 2


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
    root = parsed(heat_map(torch.ones(1, 1), (word,), ("a",), title=""))
    label = root.findall(f"{SVG}text")[2]
    assert float(label.attrib["x"]) - pixels >= 0


def test_dark_pages_get_light_ink_and_a_page_may_choose_its_own() -> None:
    light, dark = style().split("@media (prefers-color-scheme: dark)")
    for ink, colours in COLOURS.items():
        for part, colour in zip((light, dark), colours, strict=True):
            assert f".regard .{ink} {{ fill: {colour}; fill: var(--regard-{ink}, {colour}) }}" in part
    assert all(rule.startswith(".regard") for rule in light.strip().splitlines())  # on a page it styles itself alone
    root = parsed(bars(("a",), (1.0,), title=""))
    assert root.attrib["class"] == "regard"
    assert (
        root.findall(f"{SVG}rect")[0].attrib["class"] == "paper"
    )  # light text never stands on a page that stays white


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("ink", ["ink", "soft", "mark", "minus"])
def test_words_are_readable_on_their_paper(ink: str, side: int) -> None:
    """WCAG 2.2 AA asks for 4.5."""
    assert contrast(COLOURS[ink][side], COLOURS["paper"][side]) >= 4.5  # type: ignore[index]


def test_a_large_matrix_is_one_picture() -> None:
    values = torch.zeros(80, 100)
    values[3, 5] = 0.5
    names = [str(i) for i in range(100)]
    root = parsed(heat_map(values, names[:80], names, title=""))
    (image,) = root.findall(f"{SVG}image")
    kind, data = image.attrib["href"].split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data).startswith(b"\x89PNG")
    assert not squares(root)


def test_names_of_a_drawing_are_told_once() -> None:
    drawing = Drawing(10, 10, [Pixels(0, 0, 1, 1, np.zeros((1, 1), np.float32))], "a & b", "c < d")
    root = parsed(drawing)
    assert (root.findtext(f"{SVG}title"), root.findtext(f"{SVG}desc")) == ("a & b", "c < d")
    assert root.attrib["aria-label"] == "a & b"
