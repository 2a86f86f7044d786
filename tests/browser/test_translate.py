"""The first thing that a newcomer sees: which word came from where, and why the beam chose it."""

import base64
import json
import math

import numpy as np
import pytest

from browser.conftest import Opener, Server, tabbed_to

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

TEXT = "O livro está em cima da mesa."
READY = ".tree .node.chosen"


def percent(p: float) -> str:
    """As the page writes it, where it is neither near 0 nor near 1."""
    digits = f"{p * 100:.{2 if p < 0.1 else 3}g}"
    return f"{float(digits):g}%"


def test_every_english_word_is_lit_with_the_source_words_it_came_from(visit: Opener, studio: Server) -> None:
    sentence = studio.ask("/api/translate", model="pt-en", text=TEXT, beam=4, n_best=4)["sentences"][0]
    packed = sentence["cross"]["weights"]
    cross = np.frombuffer(base64.b64decode(packed["base64"]), "<f4").reshape(packed["shape"])
    best = sentence["hypotheses"][0]
    words = [token["word"] for token in sentence["source"]["tokens"]]
    page = visit(f"/translate?text={TEXT}", ready=READY)
    below = page.locator(".links .below .word")
    row = next(i for i in range(below.count()) if below.nth(i).inner_text().startswith("book"))
    below.nth(row).hover()
    token = next(token for token in best["tokens"] if token["text"] == "book")
    share = sum(cross[token["i"], i] for i, word in enumerate(words) if word == words[1])  # livro
    livro = page.locator(".links .above .word", has_text="livro")
    assert "lit" in (livro.get_attribute("class") or "")
    assert livro.locator("small").inner_text() == percent(float(share))
    assert below.nth(row).locator("small").inner_text() == percent(token["p"])
    assert page.locator(".tree .node.lit").count() == token["i"] + 1, "the way to it is lit in the tree"


def test_a_cell_of_the_matrix_says_the_number_and_lights_the_words(visit: Opener) -> None:
    page = visit(f"/translate?text={TEXT}", ready=READY)
    matrix = page.get_by_role("group", name="Alignment")
    matrix.focus()
    for key in ["ArrowDown", "ArrowRight"]:
        matrix.press(key)
    said = page.locator(".heat .reading .num").first.inner_text()
    assert said.startswith("book → livro: 0.")
    assert "book" in page.locator(".links .below .word.lit").inner_text()


def test_the_tree_is_the_api_s_and_its_best_path_the_translation(visit: Opener, studio: Server) -> None:
    sentence = studio.ask("/api/translate", model="pt-en", text=TEXT, beam=4, n_best=4)["sentences"][0]
    page = visit(f"/translate?text={TEXT}", ready=READY)
    chosen = page.locator(".tree .node.chosen[data-node] .token").all_inner_texts() or [
        each.text_content() for each in page.locator(".tree .node.chosen[data-node] .token").all()
    ]
    assert len(chosen) == len(sentence["hypotheses"][0]["ids"])
    page.get_by_label("that fell out").check()
    assert page.locator(".tree .node").count() == len(sentence["tree"]["nodes"])
    with page.expect_download() as download:
        panel = page.get_by_role("region", name="Beam")
        panel.get_by_role("button", name="Save this figure").click()
        page.get_by_role("menuitem", name="JSON").click()
    assert json.loads(download.value.path().read_text()) == sentence["tree"]


def test_a_sentence_says_why_the_beam_chose_it(visit: Opener, studio: Server) -> None:
    sentence = studio.ask("/api/translate", model="pt-en", text=TEXT, beam=4, n_best=4)["sentences"][0]
    first, second = sentence["hypotheses"][:2]
    finished = [node for node in sentence["tree"]["nodes"] if node["reason"] in ("chosen", "end", "limit")]
    page = visit(f"/translate?text={TEXT}", ready=READY)
    said = page.locator(".why-chosen").inner_text().replace("−", "-")
    assert f"of the {len(finished)} that were finished, {first['score']:.3f}" in said
    assert f"{percent(math.exp(first['log_probability'] / len(first['ids'])))} likely for each token" in said
    assert f"Next came “{second['text']}” with {second['score']:.3f}" in said


def test_a_click_on_a_word_of_the_tree_makes_the_translation_go_on_from_there(visit: Opener) -> None:
    page = visit(f"/translate?text={TEXT}", ready=READY)
    page.locator(".tree .node", has_text="desk").first.click()
    page.wait_for_selector(".word.forced")
    assert "desk" in page.locator(".links .below").inner_text()
    assert "prefix=" in page.url
    page.reload()
    page.wait_for_selector(".word.forced")
    assert "desk" in page.locator(".links .below").inner_text(), "the address holds it"
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".links .below .word:has-text('table')")


def test_all_of_it_by_keyboard_alone(visit: Opener) -> None:
    page = visit("/translate", ready=READY)
    page.keyboard.press("/")
    page.keyboard.press("Control+a")
    page.keyboard.type("A casa é azul.")
    with page.expect_response("**/api/translate"):
        page.keyboard.press("Control+Enter")
    page.wait_for_selector(".links .below .word:has-text('house')")
    tabbed_to(page, ".links .below .word")
    page.keyboard.press("ArrowRight")
    assert page.locator(".links .below .word.lit").inner_text().startswith("house")
    assert page.locator(".links .above .word.lit").inner_text().startswith("casa")
    tabbed_to(page, ".tree .node")
    page.keyboard.press("ArrowDown")
    said = page.evaluate("() => document.activeElement.querySelector('title').textContent")
    assert "Write this instead" in said
    with page.expect_response("**/api/translate"):
        page.keyboard.press("Enter")
    page.wait_for_selector(".word.forced")


def test_the_other_translations_of_the_beam_are_shown_with_their_own_weights(visit: Opener, studio: Server) -> None:
    hypotheses = studio.ask("/api/translate", model="pt-en", text=TEXT, beam=4, n_best=4)["sentences"][0]["hypotheses"]
    page = visit(f"/translate?text={TEXT}", ready=READY)
    listed = page.locator(".best button span:first-child").all_inner_texts()
    assert listed == [each["text"] for each in hypotheses]
    with page.expect_response("**/api/attention/head"):
        page.keyboard.press("]")
    page.locator(".best button[aria-pressed=true]", has_text=hypotheses[1]["text"]).wait_for()
    page.locator(".links .below").get_by_text(hypotheses[1]["text"].split()[-1]).first.wait_for()


@pytest.mark.parametrize("way", ["SVG", "PNG", "CSV"])
def test_the_matrix_leaves_the_page_as_a_file(visit: Opener, way: str) -> None:
    page = visit(f"/translate?text={TEXT}", ready=READY)
    with page.expect_download() as download:
        page.get_by_role("region", name="Alignment").get_by_role("button", name="Save this figure").click()
        page.get_by_role("menuitem", name=way, exact=True).click()
    data = download.value.path().read_bytes()
    starts = {"SVG": b"<svg xmlns=", "PNG": b"\x89PNG", "CSV": b",O,livro"}
    assert data.startswith(starts[way])
    assert way != "SVG" or b">livro</text>" in data, "names stay words"
