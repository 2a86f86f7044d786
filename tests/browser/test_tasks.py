"""The other views do their work by mouse and by keys, and show the API's numbers."""

import pytest

from browser.conftest import Opener, Server
from regard.runlog import RunLog

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def test_a_token_of_a_text_shows_what_else_could_have_come_and_a_click_branches(visit: Opener, studio: Server) -> None:
    asked = {"model": "tiny-write", "prompt": "Hello there", "max_new": 6, "top": 12}
    found = studio.ask("/api/generate", **asked)
    page = visit("/generate?model=tiny-write&text=Hello there&max=6", ready=".bars li")
    page.wait_for_selector(".export")  # it is whole
    page.locator("h1").click()
    for _ in range(len(found["tokens"])):
        page.keyboard.press("ArrowLeft")
    page.wait_for_selector("h2:has-text('1. ')")
    top = found["tokens"][0]["top"]
    names = page.locator(".sides > .panel .bars .name").all_inner_texts()
    assert names[: len(top)] == [shown(each["text"]) for each in top]
    with page.expect_request("**/api/generate") as request:
        page.locator(".sides > .panel .bars button").nth(1).click()
    assert request.value.post_data_json["forced"] == [top[1]["id"]]
    page.wait_for_selector("h2:has-text('Earlier ways')")
    assert f"forced={top[1]['id']}" in page.url


def shown(text: str) -> str:
    text = text.replace("\n", "↵").replace("\t", "⇥")
    return text if text.strip() else "␣" * len(text) or "∅"


def test_filtering_is_shown_before_and_after(visit: Opener) -> None:
    page = visit("/generate?model=tiny-write&text=Hello&max=3&temperature=0.7&top_k=3&seed=5", ready=".bars li.faded")
    assert page.locator(".sides > .panel .bars li:not(.faded)").count() <= 4
    assert page.locator(".sides > .panel .bars b").count() > 3, "what they had before is drawn, too"


def test_a_gap_is_filled_and_a_click_puts_the_word_there(visit: Opener, studio: Server) -> None:
    text = "The [MASK] is in the [MASK]."
    gaps = studio.ask("/api/fill", model="tiny-fill", text=text, top=10)["gaps"]
    page = visit(f"/fill?text={text}", ready=".bars li")
    assert page.locator(".panel").count() == 2
    names = page.locator(".panel").first.locator(".name").all_inner_texts()
    assert names == [each["token"] for each in gaps[0]]
    with page.expect_response("**/api/fill"):
        page.locator(".panel").first.locator("button").nth(1).click()
    assert page.get_by_label("Text with [MASK] or ___").input_value().count("[MASK]") == 1


def test_classes_have_their_probabilities_and_words_their_share(visit: Opener, studio: Server) -> None:
    text = "A moving story."
    found = studio.ask("/api/classify", model="tiny-classify", text=text, saliency="occlusion")
    page = visit(f"/classify?text={text}&method=occlusion", ready=".words .word")
    best = max(found["labels"], key=lambda each: each["p"])
    first = page.get_by_role("region", name="Classes").locator("li").first
    assert first.locator(".name").inner_text() == best["name"]
    assert abs(float(first.locator(".num").inner_text().rstrip("%")) / 100 - best["p"]) < 0.001
    page.locator(".words .word").nth(1).hover()
    assert page.locator(".reading").inner_text().replace("−", "-").endswith(f"{found['saliency']['values'][1]:.4f}")
    with page.expect_response("**/api/classify") as answer:  # awaited: the next click would break it off
        page.get_by_role("radio", name="gradient × input").click()
    answer.value.finished()
    with page.expect_response("**/api/classify") as answer:
        page.get_by_role("region", name="Classes").locator("button").last.click()
    assert answer.value.json()["saliency"]["method"] == "gradient"


def test_the_answer_is_marked_where_it_stands(visit: Opener, studio: Server) -> None:
    asked = {"question": "Who?", "context": "😀 Ada met Charles in London."}
    found = studio.ask("/api/answer", model="tiny-answer", **asked, top=5)
    page = visit(f"/answer?question=Who?&context={asked['context']}", ready="mark")
    assert page.locator("mark").inner_text() == found["answers"][0]["text"]
    page.get_by_role("region", name="Best answers").locator(".bars button").nth(1).click()
    assert page.locator("mark").inner_text() == found["answers"][1]["text"]


def test_every_word_has_its_tag(visit: Opener, studio: Server) -> None:
    text = "Ada met Charles in London."
    found = studio.ask("/api/tag", model="tiny-tag", text=text)
    page = visit(f"/tag?text={text}", ready=".word-tag")
    tags = page.locator(".word-tag small:nth-child(2)").all_inner_texts()
    assert tags == [word["tag"] for word in found["words"]]
    assert page.locator("mark").count() == len(found["entities"])
    page.get_by_role("button", name="Settings").click()
    with page.expect_response("**/api/tag") as answer:
        page.get_by_label("only valid sequences").check()
    assert answer.value.ok


def test_sentences_are_compared(visit: Opener, studio: Server) -> None:
    texts = ["A cat.", "A dog.", "Stocks fell."]
    cosine = studio.ask("/api/embed", model="tiny-embed", texts=texts)["cosine"]
    page = visit("/embeddings?model=tiny-embed&texts=" + "%0A".join(texts), ready=".plane circle")
    page.get_by_role("group", name="How alike").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".heat .reading .num").inner_text().endswith(f": {cosine[0][1]:.4f}")
    page.locator(".plane circle").nth(2).click()
    page.wait_for_selector("h2:has-text('Nearest to “Stocks fell.”')")


def test_a_word_is_split_step_by_step(visit: Opener, studio: Server) -> None:
    text = "Incrivelmente"
    word = studio.ask("/api/tokenize", model="pt-en", text=text)["words"][0]
    page = visit(f"/tokens?model=pt-en&text={text}", ready=".word.c0")
    page.locator("h1").click()
    for _ in word["steps"]:
        page.keyboard.press("ArrowLeft")
    assert page.locator(".pieces-now .piece").all_inner_texts() == word["symbols"]
    page.keyboard.press("ArrowRight")
    assert page.locator(".pieces-now .piece").all_inner_texts() == word["steps"][0]["symbols"]
    first = studio.ask("/api/tokenize", model="pt-en", text="Casa")["tokens"][0]["token"]
    page.get_by_label("Text", exact=True).fill("Casa")
    page.wait_for_selector(f".word.c0:has-text('{first}')")


def test_places_and_masks_say_what_a_cell_is(visit: Opener) -> None:
    page = visit("/positions?model=pt-en&kind=decoder&text=A casa é azul.", ready=".heat canvas")
    page.wait_for_selector("h2:has-text('Mask')")
    mask = page.get_by_role("region", name="Mask")
    mask.get_by_role("group", name="Mask").focus()
    page.keyboard.press("ArrowRight")
    assert "it comes later" in mask.locator(".reading").inner_text()
    with page.expect_response("**/api/positions") as answer:
        page.get_by_role("radio", name="the paper").click()
    assert answer.value.json()["payloads"][0]["kind"] == "sinusoidal"


def test_the_model_s_parameters_add_up_on_the_page(visit: Opener, studio: Server) -> None:
    card = studio.ask("/api/card?model=pt-en")
    page = visit("/model?model=pt-en", ready=".fact")
    assert page.locator(".fact b").first.inner_text() == f"{card['summary']['n_parameters'] / 1e6:.3g} M"
    page.get_by_label("Filter").fill("embed")
    rows = page.locator("table.wide tbody tr")
    assert rows.count() == sum("embed" in each["name"] for each in card["parameters"])


def test_a_run_grows_while_it_is_watched(visit: Opener, studio: Server) -> None:
    page = visit("/runs", ready=".uplot canvas")
    assert "lesson" in page.locator("tr.lit").inner_text()
    before = page.locator(".uplot-box").first.get_attribute("aria-label")
    log = RunLog(studio.run / "log.jsonl")
    with page.expect_response(lambda answer: "/series?after=" in answer.url and "after=0" not in answer.url):
        log("step", step=11, loss=0.111, lr=0.011, norm=1.0, tokens_per_second=900.0)
    page.wait_for_selector(".uplot-box[aria-label*='0.111']")
    assert before != page.locator(".uplot-box").first.get_attribute("aria-label")
    assert "The book is on the table." in page.locator(".main").inner_text()
    with page.expect_download() as download:
        page.get_by_role("region", name="BLEU").get_by_role("button", name="Save this figure").click()
        page.get_by_role("menuitem", name="PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
