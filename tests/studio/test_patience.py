"""Clients that send or take so slowly that they only hold a line (G6)."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from regard.studio import serving
from regard.studio.guard import Rules
from studio import houses
from studio.houses import raw, request


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with houses.served(houses.studio("pt-en", rules=Rules(body_seconds=1.0))) as found:
        yield found


def test_slow_heads_and_slow_bodies_do_not_hold_a_line(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.5)
    began = time.monotonic()
    assert raw(port, b"") == b""
    assert raw(port, b"GET / HTTP/1.1\r\nHost: loc") == b""
    assert raw(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /li").count(b"alive") == 1
    slow = raw(port, request("/api/tokenize", b'{"te', length=100))
    assert b" 408 " in slow
    assert time.monotonic() - began < 25


def test_an_answer_that_nobody_takes_is_not_kept(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "READ_SECONDS", 0.5)
    asked = b"GET /static/vendor/uplot.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    size, count = len(raw(port, asked, 3)), 300
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(asked * count)
        time.sleep(4)  # what the system itself keeps is much less than all
        found = 0
        with contextlib.suppress(ConnectionError):
            while piece := line.recv(1 << 20):
                found += len(piece)
    assert size > 40_000
    assert found < size * count
