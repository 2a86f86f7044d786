"""A real server with the bundled translator and tiny models, and a real browser that may speak to it only."""

import json
import os
import select
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.runlog import RunLog
from studio.houses import race_file
from tasks import readers, seers

ROOT = Path(__file__).parent.parent.parent
READS: dict[str, dict[str, Any]] = {
    "tiny-fill": {"name": "bert masked lm, relu"},
    "tiny-classify": {"name": "bert classification", "id2label": {0: "bad", 1: "fair", 2: "good"}},
    "tiny-tag": {"name": "bert tags", "id2label": {0: "O", 1: "B-person", 2: "I-person", 3: "B-place"}},
    "tiny-answer": {"name": "bert span, tanh-gelu"},
    "tiny-embed": {"name": "bert bare"},
}
WAIT = 60_000
"Milliseconds for what takes one on a machine that does nothing else."


class Server(NamedTuple):
    url: str
    run: Path
    "A training run that it shows."

    def ask(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode() if body else None, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            data: bytes = answer.read()
        return json.loads(data) if "json" in answer.headers["Content-Type"] else data


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, bert_dir: Path, gpt2_dir: Path) -> list[Path]:
    home = tmp_path_factory.mktemp("models")
    for name, options in READS.items():
        (home / name).mkdir()
        readers.save(home / name, vocabulary=bert_dir, max_position_embeddings=512, **options)
    (home / "tiny-write").mkdir()
    readers.save(home / "tiny-write", "gpt2", gpt2_dir, n_positions=128)
    seers.vit(home / "tiny-see")
    seers.captioner(home / "tiny-caption")
    return sorted(home.iterdir())


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a training: ten steps, one check."""
    folder = tmp_path_factory.mktemp("runs") / "lesson"
    folder.mkdir()
    log = RunLog(folder / "log.jsonl")
    log("start", task="translate", steps=40)
    for step in range(1, 11):
        log("step", step=step, loss=4.0 / step, lr=0.001 * step, norm=1.0, tokens_per_second=900.0)
    log("valid", step=10, loss=0.5, BLEU=12.5, samples=["The book is on the table."])
    race_file(folder.parent / "first.json")
    return folder


@pytest.fixture(scope="session")
def studio(folders: list[Path], run_dir: Path) -> Iterator[Server]:
    """`regard studio` itself, as a program of its own."""
    program = [sys.executable, "-m", "regard", "studio", "--port", "0", "--no-open"]
    command = [*program, "pt-en", *map(str, folders), str(run_dir.parent)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            assert select.select([server.stdout], [], [], 240)[0], "the server never said where it is"
            found = Server(server.stdout.readline().strip().rstrip("/"), run_dir)
            deadline = time.monotonic() + 240
            while not all(model["tasks"] for model in found.ask("/api/models")["models"]):
                assert time.monotonic() < deadline, "the models were never read"
                time.sleep(0.5)
            yield found
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's own; Playwright is only asked to drive it."""
    driver = pytest.importorskip("playwright.sync_api", reason="pip install -c constraints.txt playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no browser: apt install chromium")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


Opener = Callable[..., Any]


@pytest.fixture
def visit(chromium: Any, studio: Server) -> Iterator[Opener]:
    """visit("/translate?text=..", ready=".tree"): a page on which nothing goes wrong and from which nothing leaves."""
    wrong: list[str] = []
    contexts = []

    def opened(place: str, *, ready: str, width: int = 1400, search: str = "", forgive: str = "nothing") -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="light",
            locale="en-US",
            reduced_motion="reduce",
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)

        def pass_on(route: Any) -> None:
            if route.request.url.startswith((studio.url, "data:", "blob:")):
                route.continue_()
            else:
                wrong.append(f"asked for {route.request.url}")
                route.abort()

        context.route("**/*", pass_on)
        page = context.new_page()
        page.set_default_timeout(WAIT)

        def heard(text: str) -> None:
            if forgive not in text:
                wrong.append(text)

        page.on("console", lambda message: heard(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: heard(str(error)))
        page.on("response", lambda answer: heard(f"{answer.status} {answer.url}") if answer.status > 399 else None)
        page.goto(f"{studio.url}/{search}#{place}")
        page.wait_for_selector(ready)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def tabbed_to(page: Any, selector: str) -> None:
    """Tab is pressed until it is reached."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"no tab leads to {selector}")
