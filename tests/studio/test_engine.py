"""A full queue refuses, what is late ends, one who fails fails alone, a dead thread is told (G8, G12, G14 to G16)."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from regard.studio import engine as engines
from regard.studio import general
from regard.studio.app import Studio, build
from regard.studio.problem import Problem
from regard.tasks.generator import Generator
from studio import houses
from studio.houses import TEXT, until
from tasks import generators, translators


class Gate:
    """A model's steps pass one by one, or all once it is open."""

    def __init__(self) -> None:
        self.is_open, self.inside, self.steps = threading.Event(), threading.Event(), 0

    def around(self, step: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def slow(*args: Any, **more: Any) -> torch.Tensor:
            self.steps += 1
            self.inside.set()
            assert self.is_open.wait(60)
            return step(*args, **more)

        return slow


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate()
    yield found
    found.is_open.set()


@pytest.fixture
def app(gate: Gate) -> Studio:
    """A translator whose steps wait at the gate, and a queue of three."""
    task = translators.translator()
    task.model.step = gate.around(task.model.step)
    found = houses.studio("pt-en", **{"pt-en": task})
    found.house.table.entries["pt-en"].engine.max_waiting = 3
    return found


def test_a_full_queue_answers_429_at_once_and_says_when_to_come_again(app: Studio, gate: Gate) -> None:
    engine = app.house.table.entries["pt-en"].engine
    with houses.client(app) as client, ThreadPoolExecutor(8) as callers:
        first = callers.submit(client.post, "/api/translate", json={"text": TEXT})
        assert gate.inside.wait(30)
        rest = [callers.submit(client.post, "/api/translate", json={"text": TEXT}) for _ in range(3)]
        until(lambda: engine.n_waiting == 3)
        refused = client.post("/api/translate", json={"text": TEXT})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/livez").status_code == 200  # the loop is free meanwhile
        assert 'regard_jobs_waiting{model="pt-en"} 3' in client.get("/metrics").text
        gate.is_open.set()
        texts = {each.result().json()["text"] for each in [first, *rest]}
        assert texts == {translators.translator()(TEXT).text}
    assert (engine.n_waiting, engine.n_running) == (0, 0)


def test_who_waits_too_long_is_told_and_takes_no_time(app: Studio, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "QUEUE_SECONDS", 0.05)
    with houses.client(app) as client, ThreadPoolExecutor(2) as callers:
        first = callers.submit(client.post, "/api/translate", json={"text": TEXT})
        assert gate.inside.wait(30)
        second = callers.submit(client.post, "/api/translate", json={"text": TEXT})
        until(lambda: app.house.table.entries["pt-en"].engine.n_waiting == 1)
        time.sleep(0.2)
        gate.is_open.set()
        assert first.result().status_code == 200
        assert second.result().status_code == 429


def test_what_takes_too_long_is_a_504_and_the_model_is_free_again(app: Studio, gate: Gate) -> None:
    engine = app.house.table.entries["pt-en"].engine
    real = engines.Job.__init__

    def hasty(self: Any, work: Any, *, seconds: float = 0.0) -> None:
        real(self, work, seconds=0.2)

    with houses.client(app) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines.Job, "__init__", hasty)
        threading.Timer(0.5, gate.is_open.set).start()
        answer = client.post("/api/translate", json={"text": TEXT})
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "timeout"
        patch.undo()
        steps = gate.steps
        until(lambda: engine.n_running == 0)
        assert gate.steps == steps  # given up between two steps, not carried to its end
        assert client.post("/api/translate", json={"text": TEXT}).status_code == 200


def test_one_who_fails_in_the_batch_fails_alone() -> None:
    task = generators.generator()
    plain, poison = Generator._step, task.encode("The book is on the table", raw=True)

    def step(self: Generator, ids: torch.Tensor, state: Any, valid: torch.Tensor | None) -> torch.Tensor:
        if ids.shape == (1, len(poison)) and ids[0].tolist() == poison:
            raise RuntimeError("this one")
        return plain(self, ids, state, valid)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Generator, "_step", step)
        with houses.client(houses.studio("writer", writer=task)) as client, ThreadPoolExecutor(4) as callers:
            prompts = ["The", "The book is on the table", "A casa", "The"]
            bodies = [{"prompt": prompt, "max_new": 20, "raw": True} for prompt in prompts]
            answers = list(callers.map(lambda body: client.post("/api/generate", json=body), bodies))
            assert [answer.status_code for answer in answers] == [200, 500, 200, 200]
            assert client.get("/readyz").status_code == 200
            assert client.post("/api/generate", json=bodies[0]).json()["ids"] == answers[0].json()["ids"]


def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers() -> None:
    with houses.client(houses.studio("writer")) as client:
        answer = client.post("/api/generate", json={"prompt": "The book", "max_new": 500, "raw": True})
        assert answer.status_code == 400
        assert "500" in answer.json()["error"]["message"]
        assert "64" in answer.json()["error"]["message"]
        long = client.post("/api/generate", json={"prompt": "book " * 500, "raw": True, "max_new": 4})
        assert long.status_code == 400


def test_a_stalled_model_is_not_ready_though_the_process_lives(
    app: Studio, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(general, "STALLED", 0.1)
    with houses.client(app) as client, ThreadPoolExecutor(1) as callers:
        client.post("/api/load", json={})
        until(lambda: client.get("/readyz").status_code == 200)
        waiting = callers.submit(client.post, "/api/translate", json={"text": TEXT})
        assert gate.inside.wait(30)
        time.sleep(0.3)
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200
        gate.is_open.set()
        assert waiting.result().status_code == 200
        until(lambda: client.get("/readyz").status_code == 200)


def test_a_dead_thread_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    app = houses.studio("pt-en")
    engine = app.house.table.entries["pt-en"].engine
    with houses.client(app) as client:
        assert client.post("/api/load", json={}).status_code == 200
        engine.close()
        assert client.post("/api/translate", json={"text": TEXT}).status_code == 503
        assert client.get("/readyz").status_code == 503


def test_a_draining_server_takes_no_new_work() -> None:
    app = houses.studio("pt-en")
    with houses.client(app) as client:
        client.post("/api/load", json={})
        app.house.table.is_draining = True
        answer = client.post("/api/translate", json={"text": TEXT})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert client.get("/readyz").status_code == 503


def test_looking_inside_and_writing_take_turns_on_one_thread() -> None:
    """While one looks, whatever passes through the model is caught: two at once would see each other."""
    app = houses.studio("writer")
    text = {"model": "writer", "text": "The book is"}
    with houses.client(app) as client, ThreadPoolExecutor(6) as callers:
        alone = client.post("/api/attention", json=text).json()["payloads"]
        wrote = client.post("/api/generate", json={"prompt": "A", "max_new": 30, "raw": True}).json()["ids"]
        jobs: list[tuple[str, dict[str, Any]]] = [("/api/attention", text)] * 6
        jobs += [("/api/generate", {"prompt": "A", "max_new": 30, "raw": True})] * 6
        answers = list(callers.map(lambda job: (job[0], client.post(job[0], json=job[1])), jobs))
    for path, answer in answers:
        assert answer.json()["payloads" if path == "/api/attention" else "ids"] == (
            alone if path == "/api/attention" else wrote
        )


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["submit", "cancel", "step", "fail"]), max_size=40), st.randoms(use_true_random=False))
def test_whatever_comes_and_goes_every_job_ends_once_and_no_place_is_lost(moves: list[str], luck: Random) -> None:
    async def main() -> None:
        engine, steps, jobs = engines.Engine("test", max_waiting=4), threading.Semaphore(0), list[engines.Job]()

        def work(job: engines.Job, fails: bool) -> str:
            while not steps.acquire(timeout=0.001):
                job.check()
            if fails:
                raise ValueError
            return "done"

        for move in moves:
            if move in ("submit", "fail"):
                job = engines.Job(partial(work, fails=move == "fail"))
                with contextlib.suppress(Problem):
                    jobs.append(engine.submit(job))
            elif move == "cancel" and jobs:
                luck.choice(jobs).cancel()
            else:
                steps.release()
        for _ in jobs:
            steps.release()
        ends = [await asyncio.wait_for(job.news.get(), 30) for job in jobs]
        assert {name for name, _ in ends} <= {"done", "error"}
        await asyncio.sleep(0)
        assert all(job.news.empty() for job in jobs)
        await asyncio.to_thread(until, lambda: engine.n_running == 0)
        assert engine.n_waiting == 0
        engine.close()

    asyncio.run(main())


def test_a_client_of_the_test_library_is_told_of_missing_models(client_without_models: TestClient) -> None:
    answer = client_without_models.post("/api/translate", json={"text": TEXT})
    assert answer.status_code == 404
    assert client_without_models.get("/readyz").status_code == 200


@pytest.fixture
def client_without_models() -> Iterator[TestClient]:
    with houses.client(build([])) as found:
        yield found
