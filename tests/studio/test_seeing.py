"""Pictures through the door: what is said of them is the task's own, and what is no picture is refused (G21)."""

import base64
import io
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient

from data.drawn import bar, encoded
from inspection.packing import unpacked
from regard.inspection.attention import attention
from regard.inspection.rollout import rollout
from regard.studio.guard import MAX_PICTURE_BODY
from regard.studio.seeing import MAX_PICTURE
from studio import houses
from studio.houses import TASKS, TEXT

PNG = encoded(bar("left", random.Random(3), size=16))


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with houses.client(houses.studio("seer", "captioner", "pt-en")) as found:
        yield found


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def ask(client: TestClient, path: str = "/api/image", data: bytes = PNG, **more: Any) -> Any:
    return client.post(path, json={"picture": text_of(data), **more})


def weights(client: TestClient, **more: Any) -> Any:
    answer = ask(client, "/api/image/head", **more)
    assert answer.status_code == 200, answer.text
    shape = tuple(map(int, answer.headers["x-regard-shape"].split(",")))
    return np.frombuffer(answer.content, "<f2").reshape(shape)


def test_labels_and_patches_are_the_model_s_own(client: TestClient) -> None:
    found = ask(client).json()  # no name: the first that sees
    picture, labels, patches = found["payloads"]
    task = TASKS["seer"][1]()
    best = task([PNG])[0].best()
    assert [(each["name"], each["p"]) for each in labels["labels"]] == best
    assert labels["label"] == best[0][0]
    assert unpacked(picture["pixels"]).tolist() == task.view.see(PNG).tolist(), "what is shown is what the model saw"
    reading = task.reading(PNG)
    assert (patches["grid"], patches["leading"]) == ([4, 4], 1)
    small = unpacked(patches["weights"])
    assert small.shape == (2, 2, 4, 4)
    own = attention(reading, "encoder", 1, 0)[0, 1:].view(4, 4)
    np.testing.assert_allclose(small[1, 0] / 255, own / own.max(), rtol=0, atol=1 / 255)
    assert "picture" not in found["request"], "it is named, not sent back"


@pytest.mark.parametrize(("layer", "head"), [(1, 0), (0, None), (None, None)])
def test_one_head_over_the_patches_is_the_recomputed_one(
    client: TestClient, layer: int | None, head: int | None
) -> None:
    ours = weights(client, model="seer", layer=layer, head=head)
    theirs = attention(TASKS["seer"][1]().reading(PNG), "encoder", layer, head)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("fusion", "discard"), [("mean", 0.0), ("max", 0.5)])
def test_the_rollout_is_that_of_the_inspection(client: TestClient, fusion: Any, discard: float) -> None:
    ours = weights(client, model="seer", how="rollout", fusion=fusion, discard=discard)
    theirs = rollout(TASKS["seer"][1]().reading(PNG), "encoder", fusion=fusion, discard=discard)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)


def test_a_caption_has_a_row_of_patches_for_each_word(client: TestClient) -> None:
    found = ask(client, model="captioner", beam=2).json()
    said = next(each for each in found["payloads"] if each["type"] == "caption")
    task = TASKS["captioner"][1]()
    ours = task(PNG, beam=2)
    assert (said["text"], said["score"]) == (ours.text, pytest.approx(ours.score, abs=1e-5))
    assert [each["text"] for each in said["alternatives"]] == [each.text for each in ours.alternatives]
    assert [each["id"] for each in said["tokens"]] == list(ours.inside.ids)
    kinds = [each["kind"] for each in found["payloads"] if each["type"] == "patches"]
    assert kinds == ["encoder", "cross"]
    cross = weights(client, model="captioner", beam=2, kind="cross")
    assert cross.shape == (len(said["tokens"]), 17)
    np.testing.assert_allclose(cross.astype(np.float32).sum(1), 1.0, rtol=0, atol=1e-2)
    np.testing.assert_allclose(cross, attention(task.reading(PNG, ours), "cross"), rtol=0, atol=1e-3)


def test_what_a_captioner_wrote_is_scored_the_same_when_read_again() -> None:
    task: Any = TASKS["captioner"][1]()
    caption = task(PNG, beam=1, max_new=6)
    with torch.no_grad():
        out = task.reading(PNG, caption).run().logits[0].clone()
    out[:, task._silent] = -torch.inf
    out = out.log_softmax(-1)
    own = [float(out[i, id]) for i, id in enumerate(caption.inside.ids)]
    assert own == pytest.approx(caption.inside.log_probabilities, abs=1e-4)


def bomb(side: int) -> bytes:
    """A PNG that says it has side x side pixels, in a hundred bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def pages() -> bytes:
    file = io.BytesIO()
    Image.new("L", (4, 4)).save(file, "GIF", save_all=True, append_images=[Image.new("L", (4, 4), 9)])
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bomb(8_100), "pixels, more than"),
        (bomb(60_000), "too large"),
        (PNG[:-40], "damaged or cut short"),
        (b"GIF89a", "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
        (pages(), "animated"),
    ],
)
def test_what_is_no_plain_picture_is_refused_with_what_to_do(client: TestClient, data: bytes, said: str) -> None:
    answer = ask(client, data=data)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert answer.json()["error"]["hint"]


def test_the_size_of_a_picture_is_looked_at_before_it_is_decoded(client: TestClient) -> None:
    large = text_of(b"x" * (MAX_PICTURE + 3))
    assert client.post("/api/image", json={"picture": large}).status_code == 422
    head = {"content-type": "application/json"}
    assert client.post("/api/image", content=b"x" * (MAX_PICTURE_BODY + 1), headers=head).status_code == 413
    assert client.post("/api/classify", content=b"x" * ((1 << 20) + 1), headers=head).status_code == 413
    for wrong in ("", "====", "no base64!", "https://localhost/cat.png", "file:///etc/passwd", 7, None):
        assert client.post("/api/image", json={"picture": wrong}).status_code == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/tokenize", {"text": "a"}),
        ("/api/attention", {"text": "a"}),
        ("/api/explain", {"text": "a"}),
        ("/api/heads", {}),
        ("/api/lens", {"text": "a"}),
        ("/api/masks", {"text": "a"}),
        ("/api/positions", {}),
    ],
)
def test_who_sees_is_not_asked_to_read(client: TestClient, path: str, body: dict[str, Any]) -> None:
    answer = client.post(path, json={"model": "seer", **body})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "seer is made for pictures, not for texts"


def test_a_model_is_chosen_by_what_is_sent(client: TestClient) -> None:
    assert ask(client, model="pt-en").json()["error"]["message"] == "pt-en is made for texts, not for pictures"
    assert client.post("/api/attention", json={"text": TEXT}).json()["request"]["model"] == "pt-en"
    rows = {row["name"]: row for row in client.get("/api/models").json()["models"]}
    assert rows["seer"]["tasks"] == ["recognise"]
    assert rows["seer"]["image"] == {"size": [8, 8], "channels": 1, "kinds": ["encoder"]}
    assert (rows["seer"]["kinds"], rows["pt-en"]["image"]) == ([], None)
    assert client.get("/api/card", params={"model": "seer"}).json()["tokenizer"] is None
