"""Every view is used by keys alone: what a mouse could click is reached by Tab or by arrows, and Tab never sticks."""

from typing import Any

import pytest
from playwright.sync_api import expect

from browser.conftest import Opener, tabbed_to
from browser.test_views import VIEWS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

MOST = 400
MARK = """() => {
  const controls = "a[href], button, input, select, textarea, summary, [role=button], [role=menuitem], [role=radio]";
  const seen = (each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled;
  const clicked = (each) => each.__e?.onClick; // where Preact keeps them
  const all = [...document.querySelectorAll("body *")].filter(seen);
  const asked = all.filter((each) => each.matches(controls) || clicked(each));
  asked.forEach((each) => each.setAttribute("data-asked", ""));
  return asked.filter(clicked).length;
}"""
STEP = """() => {
  const now = document.activeElement;
  if (now === document.body) return "";
  const again = now.hasAttribute("data-reached");
  now.setAttribute("data-reached", "");
  return again ? "again" : "new";
}"""
LEFT = """() => [...document.querySelectorAll("[data-asked]:not([data-reached])")]
  .filter((each) => !each.closest("[data-reached]") && !each.querySelector("[data-reached]"))
  .filter((each) => !each.closest("[data-arrows]")?.querySelector("[data-reached]")) // arrows go on from there
  .map((each) => each.outerHTML.slice(0, 160))"""


@pytest.mark.parametrize("name", VIEWS)
def test_all_that_can_be_clicked_is_reached_by_tab_or_arrows(visit: Opener, name: str) -> None:
    page = visit(f"/{name}", ready=VIEWS[name])
    page.wait_for_timeout(500)
    assert page.evaluate(MARK) > 0, "the page's own handlers are found"
    for _ in range(MOST):
        page.keyboard.press("Tab")
        if page.evaluate(STEP) == "again":  # round once
            break
    else:
        raise AssertionError("Tab has no end")
    assert page.evaluate(LEFT) == []


TYPED = {
    "generate": ("/api/generate", "Hello"),
    "fill": ("/api/fill", "The [MASK] sleeps."),
    "classify": ("/api/classify", "A wonderful story."),
    "answer": ("/api/answer", "Who proposed it?"),
    "tag": ("/api/tag", "Ada met Charles."),
    "embeddings": ("/api/embed", "One."),
    "attention": ("/api/attention", "A casa."),
    "explain": ("/api/explain", "A casa."),
    "tokens": ("/api/tokenize", "Casa"),
}


@pytest.mark.parametrize("name", TYPED)
def test_a_text_is_typed_and_asked_without_a_mouse(visit: Opener, name: str) -> None:
    path, text = TYPED[name]
    page = visit("/runs", ready=VIEWS["runs"])
    letters = {"embeddings": "v", "answer": "q", "tag": "n", "tokens": "k"}
    for key in ("g", letters.get(name, name[0])):
        page.keyboard.press(key)
    page.wait_for_selector(VIEWS[name])
    page.wait_for_timeout(300)
    page.keyboard.press("/")
    page.keyboard.press("Control+a")
    page.keyboard.type(text)

    def sent(request: Any) -> bool:
        return request.url.endswith(path) and text in (request.post_data or "")

    with page.expect_request(sent):
        page.keyboard.press("Control+Enter")
    page.wait_for_selector(VIEWS[name])


def test_what_has_no_text_is_used_by_tab_space_and_arrows(visit: Opener) -> None:
    page = visit("/runs", ready=VIEWS["runs"])
    tabbed_to(page, ".tools input[type=checkbox]")
    page.keyboard.press("Space")
    assert page.evaluate("() => document.activeElement.checked")
    page = visit("/model?model=pt-en", ready=VIEWS["model"])
    tabbed_to(page, ".tools input[type=text]")
    page.keyboard.type("nothing has this name")
    expect(page.locator("table.wide tbody tr")).to_have_count(0)
    page = visit("/race", ready=VIEWS["race"])
    tabbed_to(page, "summary")
    page.keyboard.press("Enter")
    expect(page.locator("details[open]")).to_have_count(1)
    page = visit("/positions?model=pt-en", ready=VIEWS["positions"])
    tabbed_to(page, "[role=radio]")
    with page.expect_response("**/api/positions") as answer:
        page.keyboard.press("ArrowRight")
    assert answer.value.json()["payloads"][0]["kind"] == "sinusoidal"


@pytest.mark.parametrize("name", ["image", "race", "embeddings"])
def test_a_figure_is_saved_without_a_mouse(visit: Opener, name: str) -> None:
    page = visit(f"/{name}", ready=VIEWS[name])
    page.wait_for_timeout(500)
    with page.expect_download() as download:
        page.keyboard.press("e")
        page.wait_for_selector("[role=menu]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    assert download.value.path().stat().st_size > 0
