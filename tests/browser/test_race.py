"""A race is shown with all its numbers, from the server or from a file of the reader's own."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.conftest import Opener
from studio.houses import race_file

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def test_curves_and_tables_are_those_of_the_file(visit: Opener) -> None:
    page = visit("/race", ready=".uplot canvas")
    curves = page.get_by_role("region", name="A training step")
    expect(curves.locator(".uplot-box")).to_have_attribute("aria-label", "rnn: 44.000; transformer: 8.000")
    curves.get_by_text("All numbers").click()
    second = curves.locator("details tbody tr").nth(1)
    assert second.locator("td, th").all_inner_texts() == ["transformer", "6.5", "8", "–"]
    assert curves.locator("details thead th").all_inner_texts() == ["Name", "128", "256", "512"]
    faded = page.get_by_role("region", name="Gradients").locator(".uplot canvas")
    expect(faded).to_be_visible()  # 83 powers of ten, and nothings, on one sheet
    table = page.get_by_role("region", name="At once")
    assert table.locator("td, tbody th").all_inner_texts() == ["rnn", "513"]
    assert "It <b>waits</b>." in table.inner_text()
    assert "seed 7" in page.locator(".asker").inner_text()
    with page.expect_download() as download:
        curves.get_by_role("button", name="Save this figure").click()
        page.get_by_role("menuitem", name="CSV", exact=True).click()
    assert download.value.path().read_text().splitlines()[1] == "rnn,12.5,23.5,44"


def test_a_file_of_one_s_own_is_opened_and_never_sent(visit: Opener, tmp_path: Path) -> None:
    race_file(tmp_path / "mine.json")
    page = visit("/race", ready=".uplot canvas")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.keyboard.press("/")
    page.set_input_files("input[type=file]", tmp_path / "mine.json")
    expect(page.locator(".asker")).to_contain_text("mine.json")
    (tmp_path / "other.json").write_text("[1, 2]")
    page.set_input_files("input[type=file]", tmp_path / "other.json")
    expect(page.get_by_role("alert")).to_contain_text("other.json is no file of a race")
    assert sent == []
