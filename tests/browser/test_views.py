"""Every view opens, in light and in dark, wide and narrow, without a violation that axe knows and without an error."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.conftest import Opener, Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
VIEWS = {
    "translate": ".tree .node.chosen",
    "generate": ".bars li",
    "fill": ".bars li",
    "classify": ".words .word",
    "answer": ".passage",
    "tag": ".word-tag",
    "embeddings": ".heat canvas",
    "image": ".heads canvas",
    "attention": ".heads canvas",
    "explain": ".query-row canvas",
    "tokens": ".word.c0",
    "positions": ".heat canvas",
    "runs": ".uplot canvas",
    "race": ".uplot canvas",
    "model": ".fact",
}
"Name -> what is there once it has drawn what it is for."


def violations(page: Any) -> list[str]:
    page.evaluate(AXE)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_no_violation_in_light_or_dark(visit: Opener, name: str) -> None:
    page = visit(f"/{name}", ready=VIEWS[name])
    page.wait_for_timeout(200)
    assert violations(page) == []
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_timeout(300)
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert violations(page) == []


@pytest.mark.parametrize("name", VIEWS)
def test_nothing_is_wider_than_a_telephone(visit: Opener, name: str) -> None:
    page = visit(f"/{name}", ready=VIEWS[name], width=390)
    page.wait_for_timeout(200)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert violations(page) == []


def test_every_view_is_reached_by_mouse_and_by_two_keys(visit: Opener) -> None:
    page = visit("/translate", ready=VIEWS["translate"])
    letters = {
        "generate": "g",
        "fill": "f",
        "classify": "c",
        "answer": "q",
        "tag": "n",
        "embeddings": "v",
        "image": "i",
    }
    letters |= {
        "attention": "a",
        "explain": "e",
        "tokens": "k",
        "positions": "p",
        "runs": "r",
        "race": "s",
        "model": "m",
        "translate": "t",
    }
    assert letters.keys() == VIEWS.keys()
    for name, letter in letters.items():
        page.locator("h1").click()  # away from what may be typed into
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(lambda url, name=name: f"#/{name}" in url)
        page.wait_for_selector(VIEWS[name])
    for link in page.locator("nav a").all():
        link.click()
        expect(link).to_have_attribute("aria-current", "page")
    page.wait_for_selector(VIEWS["model"])


def test_a_view_without_a_model_says_what_to_type(visit: Opener, studio: Server) -> None:
    page = visit("/translate", ready=VIEWS["translate"])
    found = studio.ask("/api/models")
    only = found | {"models": [model for model in found["models"] if model["name"] == "pt-en"]}
    page.route("**/api/models", lambda route: route.fulfill(json=only))
    page.reload()
    page.get_by_role("link", name="Fill gaps").click()
    page.wait_for_selector(".empty code:has-text('regard studio pt-en')")
    assert violations(page) == []


def test_another_language_is_one_click_and_stays(visit: Opener) -> None:
    page = visit("/translate", ready=VIEWS["translate"])
    page.get_by_label("Language").select_option("de")
    page.wait_for_selector("h1:has-text('Übersetzen')")
    assert page.evaluate("() => document.documentElement.lang") == "de"
    page.reload()
    page.wait_for_selector(VIEWS["translate"])
    assert page.locator("h1").inner_text() == "Übersetzen"
    assert violations(page) == []


def test_presenting_shows_the_figure_in_large_type_and_nothing_beside(visit: Opener) -> None:
    page = visit("/translate", ready=VIEWS["translate"], search="?present=1")
    assert not page.locator("nav").is_visible()
    assert page.evaluate("() => getComputedStyle(document.documentElement).fontSize") == "19px"
    assert violations(page) == []


def test_presenting_ends_where_it_began(visit: Opener) -> None:
    page = visit("/tokens", ready=VIEWS["tokens"], search="?present=1")
    page.get_by_role("button", name="Leave presenter mode").click()
    page.wait_for_selector("nav:visible")
    assert "present" not in page.url


def test_a_text_is_never_taken_for_html(visit: Opener) -> None:
    page = visit("/tokens?text=<img src=x onerror=alert(1)><b>bold</b>", ready=VIEWS["tokens"])
    assert page.locator("main img, main b").count() == 0
    assert "<b>" in page.get_by_label("Text", exact=True).input_value()


def test_the_list_of_keys_opens_and_closes_by_keys(visit: Opener) -> None:
    page = visit("/translate", ready=VIEWS["translate"])
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.get_by_label("Text in Portuguese").focus()
    page.keyboard.press("End")
    page.keyboard.type("?")
    assert page.locator("dialog").count() == 0, "keys are not taken from who types"


def test_a_mistake_is_said_with_what_to_do(visit: Opener) -> None:
    page = visit("/fill", ready=VIEWS["fill"], forgive="400")
    page.get_by_label("Text with [MASK] or ___").fill("nothing is missing here")
    with page.expect_response("**/api/fill") as answer:
        page.keyboard.press("Control+Enter")
    error = answer.value.json()["error"]
    assert page.get_by_role("alert").inner_text().split("\n") == [error["message"], error["hint"]]
