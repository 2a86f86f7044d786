"""Every figure of every view leaves the page: as a picture, and as its numbers."""

import time
from typing import Any
from xml.etree import ElementTree

import pytest

from browser.conftest import WAIT, Opener
from browser.test_views import VIEWS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

DRAWN = "canvas, svg.plane, svg.curve, .tree svg, .links, .bars li, .pieces .word, .word-tag"
FIGURES = f"""() => [...document.querySelectorAll(".panel")].filter((each) => each.querySelector("{DRAWN}"))
    .map((each) => [each.querySelector("h2")?.textContent ?? each.ariaLabel, each.querySelector(".export") !== null])"""


def ways_of(page: Any, at: int) -> list[str]:
    page.locator(".main .export").nth(at).click()
    names: list[str] = page.get_by_role("menuitem").all_inner_texts()
    page.keyboard.press("Escape")
    return names


@pytest.mark.parametrize("name", VIEWS)
def test_every_figure_has_a_way_out(visit: Opener, name: str) -> None:
    page = visit(f"/{name}", ready=VIEWS[name])
    page.wait_for_timeout(500)
    until = time.monotonic() + WAIT / 1_000  # a text that is still being written has no way out yet
    while (closed := [name for name, leaves in page.evaluate(FIGURES) if not leaves]) != STEPS[: len(closed)]:
        assert time.monotonic() < until, closed
        page.wait_for_timeout(100)
    assert page.evaluate(FIGURES)
    for at in range(page.locator(".main .export").count()):
        assert {"JSON", "CSV"} & set(ways_of(page, at))


STEPS = ["The query"]
"The steps of one row: the row leaves from the panel above them."


@pytest.mark.parametrize(
    ("view", "panel"), [("model", "Memory of the weights"), ("tag", "Tag of every word"), ("positions", "By distance")]
)
def test_bars_words_and_curves_are_drawn_with_their_names(visit: Opener, view: str, panel: str) -> None:
    page = visit(f"/{view}", ready=VIEWS[view])
    region = page.get_by_role("region", name=panel)
    with page.expect_download() as download:
        region.get_by_role("button", name="Save this figure").click()
        page.get_by_role("menuitem", name="SVG").click()
    drawn = ElementTree.parse(download.value.path()).getroot()
    texts = [each.text or "" for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    word = {"model": "float32", "tag": "Ada", "positions": "distance"}[view]
    assert any(word.casefold() in text.casefold() for text in texts), texts


def test_the_word_that_is_looked_at_is_in_the_address(visit: Opener) -> None:
    page = visit("/translate?text=O livro está em cima da mesa.", ready=VIEWS["translate"])
    page.locator(".links .below .word").nth(1).click()
    page.wait_for_url("**q=1*")
    page.reload()
    page.wait_for_selector(VIEWS["translate"])
    page.locator(".links .below .word").nth(1).and_(page.locator(".lit")).wait_for()
