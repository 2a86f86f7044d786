"""The loop only passes things on: no text is tokenised on it, and no megabyte is read on it (G13)."""

import json
import threading
import time
from typing import Any

import pytest

from regard.studio import routes
from regard.studio.fields import MAX_TEXT
from regard.studio.guard import MAX_BODY
from regard.text.tokenizer import Tokenizer
from studio import houses
from studio.houses import TEXT, raw, request, until

ASKED: dict[str, dict[str, Any]] = {
    "/api/tokenize": {"text": TEXT},
    "/api/translate": {"text": TEXT},
    "/api/attention": {"text": TEXT},
    "/api/explain": {"text": "A mesa."},
    "/api/masks": {"text": "A casa."},
    "/api/lens": {"text": "the book", "model": "filler"},
    "/api/generate": {"prompt": "The book", "max_new": 2},
    "/api/fill": {"text": "the [MASK]"},
    "/api/classify": {"text": "the book"},
    "/api/answer": {"question": "who?", "context": "the president"},
    "/api/tag": {"text": "the president"},
    "/api/embed": {"texts": ["a", "b"]},
    "/translate": {"q": TEXT, "source": "pt", "target": "en"},
    "/v1/completions": {"model": "writer", "prompt": "The book", "max_tokens": 2},
    "/v1/chat/completions": {"model": "writer", "messages": [{"role": "user", "content": "book"}], "max_tokens": 2},
    "/v1/embeddings": {"model": "embedder", "input": ["a", "b"]},
}


def test_every_text_is_tokenised_on_a_model_s_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    for name in ("encode", "encode_batch", "encode_ids", "decode"):
        plain = getattr(Tokenizer, name)

        def noted(self: Tokenizer, *args: Any, plain: Any = plain, **options: Any) -> Any:
            threads.append(threading.current_thread().name)
            return plain(self, *args, **options)

        monkeypatch.setattr(Tokenizer, name, noted)
    with houses.client(houses.studio()) as client:
        for path, body in ASKED.items():
            threads.clear()
            assert client.post(path, json=body).status_code == 200, path
            assert threads, path
            assert {name for name in threads if not name.startswith("regard-")} == set(), path


def test_while_a_text_is_tokenised_the_server_answers_others(monkeypatch: pytest.MonkeyPatch) -> None:
    held, begun, plain = threading.Event(), threading.Event(), Tokenizer.encode

    def slow(self: Tokenizer, *args: Any) -> Any:
        begun.set()
        assert held.wait(60)
        return plain(self, *args)

    app = houses.studio("pt-en")
    with houses.served(app) as port:
        until(lambda: app.house.table.is_ready)
        monkeypatch.setattr(Tokenizer, "encode", slow)
        answers: list[bytes] = []
        ask = request("/api/tokenize", json.dumps({"text": "a" * MAX_TEXT}).encode(), head="Connection: close\r\n")
        waiting = threading.Thread(target=lambda: answers.append(raw(port, ask, 60)))
        waiting.start()
        try:
            assert begun.wait(60)
            for path in ("/livez", "/api/models", "/metrics"):
                line = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                assert b" 200 OK" in raw(port, line)
            assert answers == [], "it is still at work"
        finally:
            held.set()
            waiting.join(60)
        assert b" 200 OK" in answers[0]


def test_a_text_that_is_too_long_never_reaches_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    with houses.client(houses.studio("pt-en")) as client:
        client.post("/api/load", json={})
        monkeypatch.setattr(Tokenizer, "encode", None)
        assert client.post("/api/tokenize", json={"text": "a" * (MAX_BODY - 100)}).status_code == 422
        assert client.post("/api/tokenize", json={"text": "a" * MAX_BODY}).status_code == 413


def test_a_large_request_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    plain = routes.parsed

    def noted(body: bytes) -> Any:
        threads.append(threading.get_ident())
        return plain(body)

    with houses.client(houses.studio("pt-en")) as client:
        client.post("/api/load", json={})
        monkeypatch.setattr(routes, "parsed", noted)
        objects = b'{"text": [' + b"{}," * 300_000 + b"{}]}"
        for body in (b'{"text": "a"}', objects):
            client.post("/api/tokenize", content=body, headers={"content-type": "application/json"})
    on_loop, beside = threads
    assert on_loop != beside


@pytest.mark.slow
def test_the_server_is_heard_while_megabytes_of_objects_come() -> None:
    """A bound for a busy machine: read on the loop, each of these would be a silence of half a second to seconds."""
    body = b'{"text": [' + b'{"a":1},' * 110_000 + b"{}]}"
    with houses.served(houses.studio("pt-en")) as port:
        senders = [
            threading.Thread(target=raw, args=(port, request("/api/tokenize", body, head="Connection: close\r\n")))
            for _ in range(4)
        ]
        for sender in senders:
            sender.start()
        slowest = 0.0
        while any(sender.is_alive() for sender in senders):
            began = time.monotonic()
            assert b"alive" in raw(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < 2.0
