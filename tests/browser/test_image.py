"""A picture is dropped, its patches are looked at, and every number is the API's."""

import base64
import random
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from browser.conftest import Opener, Server
from data.drawn import bar, encoded

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PNG = encoded(bar("top", random.Random(1), size=16))
READY = ".reading span:first-child:not(:empty)"
DROP = """(data) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const given = new DataTransfer();
  given.items.add(new File([bytes], "bar.png", { type: "image/png" }));
  const event = new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true });
  document.querySelector(".drop").dispatchEvent(event);
}"""


def weights(studio: Server, **more: Any) -> Any:
    data = studio.ask("/api/image/head", picture=base64.b64encode(PNG).decode(), **more)
    found = np.frombuffer(data, "<f2").astype(np.float32)
    return found.reshape(-1, 17)[:, 1:]  # the patches


def said(number: float) -> str:
    return f"{number:.4f}"


def test_a_dropped_picture_has_labels_and_a_rollout_over_its_patches(visit: Opener, studio: Server) -> None:
    found = studio.ask("/api/image", model="tiny-see", picture=base64.b64encode(PNG).decode())
    page = visit("/image?model=tiny-see", ready=READY)
    page.evaluate(DROP, base64.b64encode(PNG).decode())
    names = [each["name"] for each in found["payloads"][1]["labels"]]
    expect(page.get_by_role("region", name="Classes").locator(".name")).to_have_text(names)
    rolled = weights(studio, model="tiny-see", how="rollout")[0]
    numbers = [said(x) for x in sorted(rolled, reverse=True)[:10]]
    expect(page.get_by_role("region", name="looks at").locator(".num")).to_have_text(numbers)
    assert page.get_by_role("heading", name="16 patches, 4 × 4").is_visible()


def test_any_patch_and_any_head_by_keyboard_alone(visit: Opener, studio: Server) -> None:
    page = visit("/image?model=tiny-see", ready=READY)
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.type") == "file"
    page.set_input_files("input[type=file]", {"name": "bar.png", "mimeType": "image/png", "buffer": PNG})
    rolled = weights(studio, model="tiny-see", how="rollout")[0]
    expect(page.get_by_role("region", name="looks at").locator(".num").first).to_have_text(said(max(rolled)))
    page.get_by_role("group", name="Patches: click one").focus()
    for key in ["ArrowRight", "ArrowRight", "ArrowDown", "Enter"]:  # the first key finds the first patch
        page.keyboard.press(key)
    page.wait_for_selector("h2:has-text('“1,1” looks at')")
    assert "query=6" in page.url
    page.get_by_role("group", name="layers of").focus()
    page.keyboard.press("ArrowRight")
    row = weights(studio, model="tiny-see", layer=0, head=1)[6]
    expect(page.get_by_role("region", name="looks at").locator(".num").first).to_have_text(said(max(row)))
    page.get_by_role("group", name="Where it looked, layer 0 · head 1").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".reading .num")).to_have_text(f"0,0: {said(row[0])}")
    page.keyboard.press("Escape")
    page.wait_for_selector("h2:has-text('“[class]” looks at')")


def test_each_word_of_a_caption_lights_its_patches(visit: Opener, studio: Server) -> None:
    found = studio.ask("/api/image", model="tiny-caption", picture=base64.b64encode(PNG).decode())
    caption = next(each for each in found["payloads"] if each["type"] == "caption")
    page = visit("/image?model=tiny-caption", ready=READY)
    page.set_input_files("input[type=file]", {"name": "bar.png", "mimeType": "image/png", "buffer": PNG})
    page.wait_for_selector(f".passage:has-text('{caption['text']}')")
    words = page.locator(".caption .word")
    assert words.count() == len(caption["tokens"])
    words.nth(1).click()
    page.wait_for_selector(".caption .word.lit:nth-child(2)")
    row = weights(studio, model="tiny-caption", kind="cross")[1]
    expect(page.get_by_role("region", name="looks at").locator(".num").first).to_have_text(said(max(row)))


def test_what_is_no_picture_is_said_with_what_to_do(visit: Opener) -> None:
    page = visit("/image?model=tiny-see", ready=READY, forgive="400")
    page.set_input_files("input[type=file]", {"name": "x.png", "mimeType": "image/png", "buffer": b"no picture"})
    page.wait_for_selector("[role=alert]:has-text('not a picture')")
    page.set_input_files("input[type=file]", {"name": "x.png", "mimeType": "image/png", "buffer": b"x" * 6_000_001})
    page.wait_for_selector("[role=alert]:has-text('up to 6 MB are sent')")
