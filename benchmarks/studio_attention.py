"""How long after the click do 512 tokens look at each other?

    python benchmarks/studio_attention.py [--model minilm] [--rounds 5]

Starts `regard studio` and a real browser (Debian's chromium, driven by playwright). A text of 512 tokens is put into
the attention view and looked at, each time with other words so that nothing is remembered. Measured are the time from
the click to the first picture, from the last byte of the weights to it, the bytes of one head on the wire, and all
script of all views. Leaves with 1 if one of them is beyond its limit.
"""

import argparse
import random
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from harness import machine, report
from playwright.sync_api import Page, sync_playwright

WORDS = ["the", "cat", "saw", "a", "dog", "on", "its", "way", "home", "and", "it", "was", "too", "tired", "street"]
LIMITS = {
    "click to picture, ms": 1500,
    "data to picture, ms": 100,
    "one head, bytes": 600_000,
    "script, bytes": 400_000,
}
TIMES = """() => {
    const heads = performance.getEntriesByType("resource").filter((each) => each.name.endsWith("/api/attention/head"));
    const [head, painted] = [heads.at(-1), performance.getEntriesByName("heat painted").at(-1)?.startTime];
    if (!(head?.responseEnd > window.clicked && painted > head.responseEnd)) return null;
    return [painted - window.clicked, painted - head.responseEnd, head.encodedBodySize];
}"""
CLICKED = "each => each.addEventListener('click', () => { window.clicked = performance.now(); }, {once: true})"
STATIC = resources.files("regard.studio") / "static"


def text_of(luck: random.Random, tokens: int = 512) -> str:
    """Words of one token each, and room for the two around them."""
    return " ".join(luck.choice(WORDS) for _ in range(tokens - 2))


def look(page: Page, text: str) -> dict[str, float]:
    page.get_by_label("Text", exact=True).fill(text)
    page.evaluate("() => { performance.clearMarks(); performance.clearResourceTimings(); }")
    button = page.get_by_role("button", name="Look")
    button.evaluate(CLICKED)
    button.click()
    found = page.wait_for_function(TIMES).json_value()
    assert page.locator("text=512 × 512 weights").count(), "these are not 512 tokens"
    return dict(zip(LIMITS, found, strict=False))


def measure(url: str, model: str, rounds: int) -> list[dict[str, float]]:
    luck = random.Random(7)
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(f"{url}#/attention?model={model}&as=matrix&text=one two")
        page.wait_for_selector(".heads canvas")
        look(page, text_of(luck))  # the first opens what was not used yet
        script = sum(len(each.read_bytes()) for each in Path(str(STATIC)).rglob("*.js"))
        found = [{**look(page, text_of(luck)), "script, bytes": script} for _ in range(rounds)]
        browser.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    command = [sys.executable, "-m", "regard", "studio", given.model, "--port", "0", "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = measure(server.stdout.readline().strip(), given.model, given.rounds)
    finally:
        server.terminate()
        server.wait(30)
    values = {name: [each[name] for each in found] for name in LIMITS}
    rows = [[name, f"{median(all_):,.0f}", f"{max(all_):,.0f}", f"{LIMITS[name]:,}"] for name, all_ in values.items()]
    data: dict[str, Any] = {
        "machine": machine(("playwright",)),
        "model": given.model,
        "limits": LIMITS,
        "found": values,
    }
    note = f"{given.model}, 512 tokens, the matrix of one head in chromium, {given.rounds} texts one after the other."
    report("studio_attention", ["what", "median", "worst", "limit"], rows, data, note)
    return int(any(median(all_) > LIMITS[name] for name, all_ in values.items()))


if __name__ == "__main__":
    sys.exit(main())
