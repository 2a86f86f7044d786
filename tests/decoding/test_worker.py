"""A thread of its own serves callers on other threads and in event loops."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue

import pytest
import torch

from models import tiny
from regard.decoding.scheduler import Full, Listener, Reason, Request, Scheduler, Ticket
from regard.decoding.search import greedy
from regard.decoding.worker import Worker
from regard.errors import UserError
from regard.layers.state import KeyValueState
from regard.models.gpt import Gpt

MODEL: Gpt = tiny.make("llama", max_len=64)


def scheduler(**sizes: int) -> Scheduler[KeyValueState]:
    return Scheduler(MODEL.step, lambda request: MODEL.new_state(1, request.room), max_len=60, **sizes)


def alone(request: Request) -> list[int]:
    state = MODEL.new_state(1, request.room)
    return [int(id) for id in greedy(MODEL.step, state, torch.tensor([request.prompt]), limit=request.limit)]


def test_callers_on_many_threads_get_what_they_get_alone() -> None:
    def call(seed: int) -> None:
        request = Request((seed, seed + 1, 2), 3 + seed % 5)
        news: SimpleQueue[int | Reason] = SimpleQueue()
        worker.submit(request, news.put)
        heard = [news.get(timeout=60) for _ in range(request.limit + 1)]
        assert heard == [*alone(request), "limit"]

    with Worker(scheduler(max_rows=4)) as worker, ThreadPoolExecutor(6) as callers:
        list(callers.map(call, range(30)))


def test_an_event_loop_is_told_and_runs_on() -> None:
    async def main() -> list[int | Reason]:
        news: asyncio.Queue[int | Reason] = asyncio.Queue()
        listener: Listener = partial(asyncio.get_running_loop().call_soon_threadsafe, news.put_nowait)
        with Worker(scheduler()) as worker:
            worker.submit(Request((5, 6), 3), listener)
            return [await news.get() for _ in range(4)]

    assert asyncio.run(main()) == [*alone(Request((5, 6), 3)), "limit"]


def test_submitting_and_cancelling_never_wait_for_a_step() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(ids: torch.Tensor, state: KeyValueState, valid: torch.Tensor | None) -> torch.Tensor:
        inside.set()
        assert go_on.wait(60)
        return MODEL.step(ids, state, valid)

    service = Scheduler(slow, lambda request: MODEL.new_state(1, request.room), max_len=60, max_waiting=1)
    with Worker(service) as worker:
        ends: SimpleQueue[int | Reason] = SimpleQueue()
        first = worker.submit(Request((1, 2), 50), ends.put)
        assert inside.wait(60)
        worker.submit(Request((3,), 1), ends.put)
        with pytest.raises(Full):
            worker.submit(Request((4,), 1), ends.put)
        worker.cancel(first)
        go_on.set()
        heard = [ends.get(timeout=60) for _ in range(3)]
        while "limit" not in heard:
            heard.append(ends.get(timeout=60))
    assert first.reason == "cancelled"


def test_closing_leaves_nobody_waiting_for_an_answer() -> None:
    worker = Worker(scheduler(max_rows=1))
    tickets: list[Ticket] = [worker.submit(Request((id,), 50), lambda news: None) for id in range(1, 6)]
    worker.close()
    assert all(ticket.reason in ("limit", "cancelled") for ticket in tickets)
    assert tickets[-1].reason == "cancelled"
    with pytest.raises(UserError, match="closed"):
        worker.submit(Request((1,), 1), lambda news: None)
