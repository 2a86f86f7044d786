"""A scheduler with a thread of its own: for callers, such as a web server's event loop, that must never wait."""

import threading
from typing import Generic, Self

from regard.decoding.scheduler import Listener, Request, Scheduler, Ticket
from regard.decoding.search import S
from regard.errors import UserError


class Worker(Generic[S]):
    """`with Worker(scheduler) as worker: worker.submit(request, listener)`; listeners are called on its thread.

    From an event loop a listener is `partial(loop.call_soon_threadsafe, queue.put_nowait)`.
    """

    def __init__(self, scheduler: Scheduler[S]) -> None:
        self._scheduler = scheduler
        self._news = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="regard-worker", daemon=True)
        self._thread.start()

    def submit(self, request: Request, listener: Listener) -> Ticket:
        with self._news:
            if self._closing:
                raise UserError("the worker is closed", "start another one")
            ticket = self._scheduler.submit(request, listener)
            self._news.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        self._scheduler.cancel(ticket)

    def close(self) -> None:
        """Returns when the step under way is done; whoever is not over by then is cancelled."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._has_work():
                self._scheduler.step()
        finally:
            self._closing = True
            self._scheduler.cancel_all()

    def _has_work(self) -> bool:
        with self._news:
            self._news.wait_for(lambda: self._closing or self._scheduler.is_busy)
            return not self._closing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
