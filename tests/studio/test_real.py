"""On real weights: the bundled translator shows where its words came from, and MiniLM what 'it' means."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import regard
from inspection.packing import unpacked
from regard.pretrained.bundled import folder_of, is_here
from regard.studio.app import build
from regard.studio.models import Entry, Source
from studio import houses
from studio.houses import TEXT

ANIMAL = "The animal did not cross the street because it was too tired."


@pytest.fixture(scope="module")
def client(minilm_dir: Path) -> Iterator[TestClient]:
    if not is_here("pt-en"):
        pytest.skip("the bundled weights are not in this checkout")
    paths = {"pt-en": folder_of("pt-en"), "minilm": minilm_dir}
    entries = [Entry(name, Source(name, path).open, home=path) for name, path in paths.items()]
    with houses.client(build(entries)) as found:
        yield found


@pytest.mark.slow
def test_the_bundled_translator_shows_which_word_each_word_came_from(client: TestClient) -> None:
    found = client.post("/api/translate", json={"text": TEXT}).json()
    task: Any = regard.load("pt-en")
    assert found["text"] == task(TEXT).text == "The book is on the table."
    (sentence,) = found["sentences"]
    weights = unpacked(sentence["cross"]["weights"])
    written, read = (
        [row["text"] for row in side] for side in (sentence["hypotheses"][0]["tokens"], sentence["source"]["tokens"])
    )
    looks = {name: read[int(row.argmax())] for name, row in zip(written, weights, strict=True)}
    assert (looks["book"], looks["table"], looks["is"]) == ("livro", "mesa", "está")
    card = client.get("/api/card?model=pt-en").json()
    assert card["summary"]["n_parameters"] == task.model.n_parameters
    assert "Portuguese" in card["text"]


@pytest.mark.slow
def test_it_is_the_animal_and_512_tokens_fit_the_wire(client: TestClient) -> None:
    found = client.post("/api/explain", json={"model": "minilm", "text": ANIMAL, "token": "it", "layer": 3, "head": 1})
    (row,) = found.json()["payloads"]
    best = max(row["keys"], key=lambda key: key["weight"])
    assert best["text"] == "animal"
    assert row["check"]["largest_error"] < 1e-5
    long = " ".join([ANIMAL] * 39)
    body = {"model": "minilm", "text": long, "layer": 3, "head": 1}
    answer = client.post("/api/attention/head", json=body)
    n = int(answer.headers["x-regard-shape"].split(",")[0])
    assert 500 < n <= 512
    assert len(answer.content) == 2 * n * n < 600_000
    rows = np.frombuffer(answer.content, "<f2").reshape(n, n).astype(np.float64).sum(1)
    np.testing.assert_allclose(rows, 1.0, rtol=0, atol=2e-3)  # of half precision
    assert client.post("/api/attention/head", json={**body, "text": long + " " + ANIMAL}).status_code == 400
