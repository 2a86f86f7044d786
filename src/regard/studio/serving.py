"""uvicorn, with patience for nobody who holds a line open, and an end that lets those who wait finish."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import FAILURE, UserError
from regard.studio.app import Studio

HEAD_SECONDS, IDLE_SECONDS, DRAIN_SECONDS = 10.0, 15, 10
"For the head of a request, between two requests, and for those under way when the server is told to leave."
READ_SECONDS = 60.0
"For who asked, to take something of an answer that waits for him."
MAX_HEAD, MAX_LINES = 1 << 16, 256
"Bytes of a request's head, and connections at once."


class Patience(H11Protocol):
    """A connection is closed whose next request does not get its head together in time, or whose answer nobody takes.

    What is not taken stays in memory, and the connection counts among the few that there may be.
    """

    _timer: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taken()
        self._untaken = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class Server(uvicorn.Server):
    """SIGTERM and Ctrl-C are the usual end, no failure: those under way may finish, a second one ends at once."""

    def __init__(self, studio: Studio, started: Callable[[], None] = lambda: None) -> None:
        self._studio, self._started = studio, started
        super().__init__(
            uvicorn.Config(
                studio,
                http=Patience,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_LINES,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=DRAIN_SECONDS,
                h11_max_incomplete_event_size=MAX_HEAD,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's own raises the signal again afterwards, which would look like a failure."""
        names = (signal.SIGINT, signal.SIGTERM)
        try:
            before = {name: signal.signal(name, self._told) for name in names}
        except ValueError:  # not the main thread: someone else listens
            before = {}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def _told(self, *_signal: object) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._studio.house.table.is_draining = True


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; what is wrong with the address is said in words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        taken = f"port {port} of {host} cannot be had: {error.strerror or error}"
        hint = f"another program, perhaps a studio, has it: give another with --port {port + 1}, or --port 0 for any"
        raise UserError(taken, hint, exit_code=FAILURE) from error
    return found


def serve(studio: Studio, listening: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Until it is told to leave."""
    Server(studio, started).run(sockets=[listening])
