"""One thread a model: whoever wants something of it stands in its queue, and the event loop never waits for torch.

A job is done in one go (a translation, a look inside) or hands its text over to the scheduler, which writes those of
all callers together; between two of the scheduler's steps one job is done. Looking and writing share the thread since
a look catches whatever passes through the model.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from regard.decoding.scheduler import Scheduler
from regard.studio.problem import Gone, Problem, problem_of

MAX_WAITING = 64
QUEUE_SECONDS, JOB_SECONDS = 60.0, 300.0
"How long a job may wait to be begun, and to be done from when it came."
LATER = object()
"What a job gives that will be finished by someone else on the same thread."

log = logging.getLogger("regard.studio")

News = tuple[str, Any]
"A name and a value; the last is ('done', result) or ('error', Problem)."


class Job:
    """Work for an engine, and the way back: `tell` and `finish` on its thread, `news` and `cancel` on the loop's."""

    def __init__(self, work: Callable[["Job"], Any], *, seconds: float = JOB_SECONDS) -> None:
        self.work, self.news = work, asyncio.Queue[News]()
        self._loop = asyncio.get_running_loop()
        self.came = time.monotonic()
        self.deadline = self.came + seconds
        self.is_cancelled = self.is_over = False
        self.on_cancel: Callable[[], None] = lambda: None
        self.count: Callable[[int], None] = lambda n: None
        "Told how many tokens were written."

    def check(self) -> None:
        """Called between steps: raises where nobody waits any more."""
        if self.is_cancelled:
            raise Gone
        if time.monotonic() > self.deadline:
            raise Problem(504, "the request took too long", hint="ask for less at once", code="timeout")

    def tell(self, name: str, value: Any) -> None:
        self.check()
        self._post((name, value))

    def finish(self, result: Any) -> None:
        self._end(("done", result))

    def fail(self, error: BaseException) -> None:
        found = problem_of(error)
        if found.status == 500:
            log.error("%s in a request: %s", type(error).__name__, place_of(error))
        self._end(("error", found))

    def _end(self, news: News) -> None:
        if not self.is_over:
            self.is_over = True
            self._post(news)

    def _post(self, news: News) -> None:
        try:
            self._loop.call_soon_threadsafe(self.news.put_nowait, news)
        except RuntimeError:  # the loop is closed: nobody listens
            self.is_cancelled = True

    def cancel(self) -> None:
        self.is_cancelled = True
        self.on_cancel()

    def run(self) -> None:
        try:
            self.check()
            if time.monotonic() - self.came > QUEUE_SECONDS:
                raise Problem(429, "the queue was too long", hint="try again later", code="busy")
            result = self.work(self)
            if result is not LATER:
                self.finish(result)
        except BaseException as error:  # a panic of the tokenizer library is no Exception, and no reason to end
            self.fail(error)


def place_of(error: BaseException) -> str:
    """Where it was raised; never what it says, for that may be the user's text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


class Engine:
    def __init__(self, name: str, *, max_waiting: int = MAX_WAITING) -> None:
        self.max_waiting = max_waiting
        self.scheduler: Scheduler[Any] | None = None
        self.running: Job | None = None
        self.beat = time.monotonic()
        "When it last began or ended something."
        self._waiting: deque[Job] = deque()
        self._news = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"regard-{name}", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        return len(self._waiting) + (len(self.scheduler.waiting) if self.scheduler else 0)

    @property
    def n_running(self) -> int:
        live = len(self.scheduler.live) + bool(self.scheduler.reading) if self.scheduler else 0
        return live + (self.running is not None)

    def stalled_for(self) -> float:
        """Seconds without a sign of life while there is work; endless once the thread is dead."""
        if not self._thread.is_alive():
            return float("inf")
        return time.monotonic() - self.beat if self.n_running or self.n_waiting else 0.0

    def submit(self, job: Job) -> Job:
        with self._news:
            if self._closing:
                raise Problem(503, "the server is leaving", hint="start it again", code="draining")
            if not self._thread.is_alive():
                raise Problem(503, "the model's thread has died", hint="start the server again", code="dead")
            if self.n_waiting >= self.max_waiting:
                raise Problem(
                    429, f"{self.n_waiting} requests are waiting already", hint="try again later", code="busy"
                )
            self._waiting.append(job)
            job.on_cancel = partial(self._forget, job)
            self._news.notify()
        return job

    def _forget(self, job: Job) -> None:
        """Who leaves the queue makes room at once; what is under way looks for itself."""
        with self._news:
            if job in self._waiting:
                self._waiting.remove(job)
                job.fail(Gone())

    def close(self, seconds: float = 5.0) -> None:
        with self._news:
            self._closing = True
            for job in [*self._waiting, *([self.running] if self.running else [])]:
                job.is_cancelled = True
            self._news.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while self._has_work():
                self.beat = time.monotonic()
                if (job := self._next()) is not None:
                    job.run()
                    self.running = None
                if self.scheduler is not None and self.scheduler.is_busy:
                    self.scheduler.step()
        finally:
            self._closing = True
            for job in list(self._waiting):
                job.fail(Problem(503, "the server is leaving", code="draining"))
            if self.scheduler is not None:
                self.scheduler.cancel_all()

    def _has_work(self) -> bool:
        def is_due() -> bool:
            return self._closing or bool(self._waiting) or (self.scheduler is not None and self.scheduler.is_busy)

        with self._news:
            self._news.wait_for(is_due)
            return not self._closing

    def _next(self) -> Job | None:
        with self._news:
            self.running = self._waiting.popleft() if self._waiting else None
            return self.running
