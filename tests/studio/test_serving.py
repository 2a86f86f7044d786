"""Behind a real socket: slow and gone clients, the server's end, and real clients of others (G7, G9, G10, G17)."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from regard.errors import UserError
from regard.studio.app import Studio, build
from regard.studio.guard import Rules
from regard.studio.models import Entry
from regard.studio.serving import bound
from regard.tasks.translator import Translator
from studio import houses
from studio.houses import TEXT, raw, request, until
from tasks import generators, translators


@pytest.fixture(scope="module")
def app() -> Studio:
    return houses.studio("pt-en", "writer", "embedder", rules=Rules(body_seconds=1.0))


@pytest.fixture(scope="module")
def port(app: Studio) -> Iterator[int]:
    with houses.served(app) as found:
        yield found


def test_a_head_of_200_kilobytes_is_refused(port: int) -> None:
    long = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n"
    assert b"alive" not in raw(port, long, 10)  # a 400, or a line that is cut before it is read


def test_no_host_and_two_hosts_are_refused(port: int) -> None:
    assert b" 400 " in raw(port, b"GET /livez HTTP/1.0\r\n\r\n")
    assert b" 400 " in raw(
        port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\nConnection: close\r\n\r\n"
    )


class Slow:
    """A writer whose steps take a while, so that one can leave in between."""

    def __init__(self) -> None:
        self.task, self.steps = generators.generator(), 0
        plain = self.task.model.step

        def step(*args: Any) -> Any:
            self.steps += 1
            time.sleep(0.02)
            return plain(*args)

        self.task.model.step = step


LONG = json.dumps({"prompt": "The", "max_new": 60, "raw": True, "seed": 5, "temperature": 5.0}).encode()


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_frees_the_place_within_a_step_or_two(stream: bool) -> None:
    slow = Slow()
    app = houses.studio("writer", writer=slow.task)
    engine = app.house.table.entries["writer"].engine
    body = json.dumps({**json.loads(LONG), "stream": stream}).encode()
    with houses.served(app) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            line.sendall(request("/api/generate", body))
            until(lambda: slow.steps >= 4)
        until(lambda: engine.n_running == 0 and engine.n_waiting == 0)
        steps = slow.steps
        time.sleep(0.3)
        assert steps == slow.steps < 55


def test_who_hangs_up_while_waiting_is_never_served() -> None:
    slow = Slow()
    app = houses.studio("writer", writer=slow.task)
    engine = app.house.table.entries["writer"].engine
    with houses.served(app) as port:
        lines = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(12)]
        for line in lines:  # eight are written at once, four wait
            line.sendall(request("/api/generate", LONG))
        until(lambda: engine.n_running >= 8)
        for line in lines:
            line.close()
        until(lambda: engine.n_running == 0 and engine.n_waiting == 0)
        assert slow.steps < 55


def test_a_beam_search_stops_between_steps_when_its_client_leaves() -> None:
    task, steps = translators.translator(), [0]
    plain = task.model.step

    def step(*args: Any) -> Any:
        steps[0] += 1
        time.sleep(0.05)
        return plain(*args)

    task.model.step = step
    app = houses.studio("pt-en", **{"pt-en": task})
    with houses.served(app) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            line.sendall(request("/api/translate", json.dumps({"text": TEXT, "tree": False}).encode()))
            until(lambda: steps[0] >= 2)
        until(lambda: app.house.table.entries["pt-en"].engine.n_running == 0)
        assert steps[0] <= 8


# ---- clients of others


@pytest.fixture(scope="module")
def client(port: int) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_openai_lists_and_chats(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["writer", "embedder"]
    asked: Any = [{"role": "user", "content": "the book"}]
    found = client.chat.completions.create(
        model="writer", messages=asked, max_tokens=6, logprobs=True, top_logprobs=2, temperature=0
    )
    ours = generators.generator()("the book", limit=6)
    assert found.choices[0].message.content == ours.text
    assert found.usage is not None
    assert found.usage.completion_tokens == len(ours.ids)
    numbers = found.choices[0].logprobs
    assert numbers is not None
    assert numbers.content is not None
    assert [each.top_logprobs[0].token for each in numbers.content] == [each.token for each in numbers.content]
    assert all(each.logprob <= 0 for each in numbers.content)


def test_openai_streams_the_same_words_and_the_usage(client: openai.OpenAI) -> None:
    asked: Any = [{"role": "user", "content": "the book"}]
    parts = list(
        client.chat.completions.create(
            model="writer", messages=asked, max_tokens=6, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == generators.generator()("the book", limit=6).text
    assert parts[-1].usage is not None
    assert parts[-2].choices[0].finish_reason in ("stop", "length")


def test_openai_completes_with_numbers_and_echo(client: openai.OpenAI) -> None:
    found = client.completions.create(model="writer", prompt="The book", max_tokens=5, logprobs=2, echo=True)
    ours = generators.generator()("The book", limit=5, raw=True)
    assert found.choices[0].text == "The book" + ours.text
    numbers = found.choices[0].logprobs
    assert numbers is not None
    assert numbers.token_logprobs is not None
    assert len(numbers.token_logprobs) == len(ours.ids)
    parts = client.completions.create(model="writer", prompt="The book", max_tokens=5, stream=True)
    assert "".join(part.choices[0].text for part in parts) == ours.text


def test_openai_embeds_as_the_task_does(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="embedder", input=["the", "of in"])  # it asks for base64
    ours = houses.TASKS["embedder"][1]()(["the", "of in"])
    assert [each.embedding for each in found.data] == [pytest.approx(row.tolist(), abs=1e-6) for row in ours]


def test_openai_is_told_what_is_wrong_in_its_own_errors(client: openai.OpenAI) -> None:
    asked: Any = [{"role": "user", "content": "a"}]
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-5", messages=asked)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.UnprocessableEntityError) as wrong:
        client.chat.completions.create(model="writer", messages=asked, n=3)
    assert wrong.value.param == "n"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="writer", messages=asked, max_tokens=1000)
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="writer", input="a")
    picture: Any = [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]
    with pytest.raises(openai.UnprocessableEntityError):  # nothing is ever fetched
        client.chat.completions.create(model="writer", messages=[{"role": "user", "content": picture}])


def test_openai_may_stop_listening_and_the_place_is_free(app: Studio, client: openai.OpenAI) -> None:
    asked: Any = [{"role": "user", "content": "the book"}]
    stream = client.chat.completions.create(model="writer", messages=asked, max_tokens=40, stream=True, temperature=2.0)
    next(iter(stream))
    stream.close()
    engine = app.house.table.entries["writer"].engine
    until(lambda: engine.n_running == 0 and engine.n_waiting == 0)


def test_a_client_of_libretranslate_works_with_forms_and_json(port: int) -> None:
    def post(data: bytes, kind: str) -> Any:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/translate", data, {"Content-Type": kind})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)

    ours = translators.translator()(TEXT, split=True).text
    form = urllib.parse.urlencode({"q": TEXT, "source": "pt", "target": "en", "api_key": ""}).encode()
    assert post(form, "application/x-www-form-urlencoded") == {"translatedText": ours}
    body = {"q": [TEXT, "casa"], "source": "auto", "target": "en", "alternatives": 2}
    found = post(json.dumps(body).encode(), "application/json")
    assert found["translatedText"][0] == ours
    assert [len(each) for each in found["alternatives"]] == [2, 2]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/languages", timeout=60) as answer:
        assert json.load(answer)[0] == {"code": "pt", "name": "Portuguese", "targets": ["en"]}
    with pytest.raises(urllib.error.HTTPError) as wrong:
        post(json.dumps({**body, "target": "zz"}).encode(), "application/json")
    assert wrong.value.code == 400
    wrong.value.close()


def test_of_several_translators_the_one_for_the_languages_is_taken() -> None:
    both = [Entry(name, lambda device: {Translator: translators.translator}) for name in ("pt-en", "my-de-en")]
    with houses.client(build(both)) as client:
        body = {"q": "casa", "source": "de", "target": "en"}
        assert client.post("/translate", json=body).status_code == 200
        assert client.post("/translate", json={**body, "model": "pt-en"}).status_code == 400
        assert [row["targets"] for row in client.get("/languages").json()] == [["en"], ["en"], []]


# ---- the end


def test_a_taken_port_is_told_in_words(port: int) -> None:
    with pytest.raises(UserError, match="cannot be had") as found:
        bound("127.0.0.1", port)
    assert "--port" in found.value.hint


def test_who_is_being_served_when_the_server_is_told_to_leave_gets_all_of_it() -> None:
    slow, got = Slow(), []
    app = houses.studio("writer", writer=slow.task)
    with houses.served(app) as port:
        reading = threading.Thread(
            target=lambda: got.append(raw(port, request("/api/generate", LONG, head="Connection: close\r\n")))
        )
        reading.start()
        until(lambda: slow.steps >= 3)
    reading.join(30)
    assert b" 200 " in got[0][:20]
    assert got[0].rstrip().endswith(b"}")


@pytest.mark.slow
def test_the_command_serves_until_sigterm_and_leaves_with_0(tmp_path: Path) -> None:
    folder = translators.save(tmp_path / "pt-en")
    command = [sys.executable, "-m", "regard", "studio", str(folder), "--port", "0", "--no-open"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        data = json.dumps({"text": TEXT}).encode()
        asked = urllib.request.Request(f"{url}api/translate", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=120) as answer:
            assert json.load(answer)["model"] == "pt-en"
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, out) == (0, "")
    assert "closed" in err
