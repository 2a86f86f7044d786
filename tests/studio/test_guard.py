"""Nobody gets in who does not belong (cases G1 to G5, G18 to G23 of the list of faults)."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.studio.app import build
from regard.studio.guard import Rules
from regard.studio.models import Entry
from regard.studio.pages import policy, read_files
from regard.tasks.translator import Translator
from studio import houses
from studio.houses import TEXT
from tasks import translators

TOKEN = "a-long-enough-token"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with houses.client(houses.studio("pt-en", rules=Rules(max_body=20_000))) as found:
        yield found


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:7860", "[::1]:7860", "[::1]", "LOCALHOST:1"])
def test_our_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/livez", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.com", "localhost.evil.com", "a/?x=localhost", "", "localhost@evil.com", "evil.com:7860", "127.0.0.1.nip.io"],
)
def test_another_host_name_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/livez", headers={"host": host})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "host"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.com"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:7861"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"origin": "http://localhost:7860", "sec-fetch-site": "same-origin"}, 200),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_a_stranger_s_page_cannot_ask(client: TestClient, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"text": TEXT}).encode()
    answer = client.post("/api/tokenize", content=body, headers={"content-type": "application/json"} | headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


def test_a_stranger_s_page_may_link_to_ours_but_not_read_from_it(client: TestClient) -> None:
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200
    assert client.get("/api/models", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_a_large_body_is_refused_by_its_length_and_in_pieces(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b"x" * 10_000 for _ in range(5))

    for content in (b"x" * 20_001, pieces()):
        answer = client.post("/api/tokenize", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 413


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xfe", b"[" * 9_000, b'{"text": "a", "beam": ' + b"9" * 5000 + b"}", b"NaN", b""]
)
def test_what_is_no_json_is_a_400(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_json"


@pytest.mark.parametrize("value", ["NaN", "1e999", "-1e999", '"1"', "11", 'null, "x": 1'])
def test_numbers_that_are_none_are_refused(client: TestClient, value: str) -> None:
    body = f'{{"text": "a", "length_penalty": {value}}}'.encode()
    answer = client.post("/api/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)


def test_a_request_names_no_path(client: TestClient) -> None:
    for name in ("/etc/passwd", "../pt-en", "hf:owner/model", "pt-en/../pt-en"):
        answer = client.post("/api/translate", json={"text": TEXT, "model": name})
        assert answer.status_code == 404
        assert answer.json()["error"]["hint"] == "there is pt-en"


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%5capp.py"]
)
def test_no_file_outside_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_every_answer_carries_the_headers_that_keep_a_page_in_its_bounds(client: TestClient) -> None:
    for answer in (client.get("/"), client.get("/nothing"), client.post("/api/tokenize", json={"text": "a"})):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        rules = answer.headers["content-security-policy"]
        assert "default-src 'self'" in rules
        assert "frame-ancestors 'none'" in rules
        assert "unsafe-inline" not in rules.partition("script-src")[2].partition(";")[0]


def test_scripts_in_the_page_are_allowed_by_their_hash_alone() -> None:
    page = b'<script type="importmap">{"imports": {}}</script><script type="module" src="/static/a.js"></script>'
    found = policy(page)
    assert found.count("'sha256-") == 1
    assert policy(read_files()["index.html"].body)


def test_a_method_or_a_page_that_is_not_there_is_said_in_json(client: TestClient) -> None:
    answer = client.get("/api/translate")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert client.get("/api/nothing").json()["error"]["type"] == "not_found_error"


# ---- beyond this computer


@pytest.fixture(scope="module")
def far() -> Iterator[TestClient]:
    with houses.client(houses.studio("pt-en", rules=Rules(hosts=None, token=TOKEN))) as found:
        yield found


def test_without_the_token_only_life_is_told(far: TestClient) -> None:
    assert far.get("/livez").status_code == 200
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"cookie": "regard_token=x"}):
        for path in ("/", "/api/models", "/static/index.html", "/readyz", "/openapi.json"):
            assert far.get(path, headers=headers).status_code == 401
    assert far.get("/api/models", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_address_with_the_token_is_exchanged_for_a_cookie(far: TestClient) -> None:
    answer = far.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=Strict" in answer.headers["set-cookie"]
    assert far.get("/api/models", headers={"cookie": f"regard_token={TOKEN}"}).status_code == 200
    far.cookies.clear()
    assert far.get("/?token=wrong", follow_redirects=False).status_code == 401


# ---- what is never said


class Broken(Translator):
    def __call__(self, text: str, **_: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(f"a secret: {text}")


def test_an_error_of_ours_is_a_500_that_says_nothing_of_the_text(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken(translators.model(), translators.tokenizer(), translators.tokenizer())
    app = houses.studio("pt-en", **{"pt-en": broken})
    with caplog.at_level(logging.DEBUG), houses.client(app) as client:
        answer = client.post("/api/translate", json={"text": "my private words"})
        assert answer.status_code == 500
        assert "private" not in answer.text
        assert client.post("/api/tokenize", json={"text": "a"}).status_code == 200  # it goes on
    assert "private" not in caplog.text
    assert "RuntimeError" in caplog.text


def test_a_model_that_cannot_be_opened_is_a_503_and_the_others_serve() -> None:
    def fails(device: str) -> Any:
        raise OSError("no such file")

    app = build([Entry("broken", fails), houses.entry("pt-en")])
    with houses.client(app) as client:
        assert client.post("/api/translate", json={"text": TEXT, "model": "broken"}).status_code == 503
        assert client.post("/api/translate", json={"text": TEXT}).json()["model"] == "pt-en"
        states = {row["name"]: row["state"] for row in client.get("/api/models").json()["models"]}
        assert states == {"broken": "failed", "pt-en": "ready"}
        assert client.get("/readyz").status_code == 503
