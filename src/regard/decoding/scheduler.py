"""Continuous batching (Yu et al. 2022): many callers, one model; texts join and leave the batch at any step.

Every text is what it would be alone: greedy search takes the likeliest token, sampling has the luck of row 0 of the
request's own seed. Beam search has no place here, since its rows are chosen together (beam.py).

The batch holds live texts only, so a step costs what they cost. Who comes is read as a row of its own, first come,
first served, and never more than a few tokens between two steps: nobody who writes waits for another's long prompt.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Literal

import torch
from torch import Tensor

from regard.config import require
from regard.decoding.sample import SampleSettings, draw, uniform
from regard.decoding.search import S, Step, likeliest
from regard.errors import UserError

Reason = Literal["end", "limit", "cancelled", "timeout", "error"]
Listener = Callable[[int | Reason], None]
"Gets each token as it comes and then, once, the reason why no more will. One that raises is taken to have left."


class Full(UserError):
    """As many wait as may: what a web server answers with 429."""


@dataclass(frozen=True)
class Request:
    prompt: tuple[int, ...]
    "What is continued; for an encoder-decoder the start token, and a forced beginning if there is one."
    limit: int
    "Tokens to write at most, the end included."
    source: tuple[int, ...] = ()
    "What an encoder reads."
    end_ids: frozenset[int] = frozenset()
    settings: SampleSettings | None = None
    "How to draw; without them the search is greedy."
    timeout: float | None = None
    "Seconds from submission, waiting included."
    seen: Callable[[Tensor, int], None] | None = None
    "Shown the scores (1, V) and the token that was chosen by them, before the listener hears of it."

    def __post_init__(self) -> None:
        require(bool(self.prompt), "the prompt is empty", "expected at least one token")
        require(self.limit >= 1, f"at most {self.limit} new tokens", "expected at least 1")

    @property
    def room(self) -> int:
        """Tokens that its state comes to hold: the last one written is never read."""
        return len(self.prompt) + self.limit - 1


@dataclass(eq=False)
class Ticket:
    """A request on its way, and what has come of it."""

    request: Request
    listener: Listener
    deadline: float | None
    written: list[int] = field(default_factory=list)
    reason: Reason | None = None
    "None until it is over."
    error: Exception | None = None
    is_cancelled: bool = False

    @cached_property
    def luck(self) -> Tensor:
        assert self.request.settings is not None
        return uniform(self.request.settings.seed, 0, self.request.limit)

    def given_up(self, now: float) -> Reason | None:
        if self.is_cancelled:
            return "cancelled"
        return "timeout" if self.deadline is not None and now >= self.deadline else None

    def write(self, scores: Tensor) -> None:
        """One more token, by its scores (1, V)."""
        try:
            token = self._choose(scores)
        except UserError as error:
            self.end("error", error)
            return
        self.written.append(token)
        self._tell(token, scores)
        if token in self.request.end_ids:
            self.end("end")
        elif len(self.written) == self.request.limit:
            self.end("limit")

    def _choose(self, scores: Tensor) -> int:
        settings, t = self.request.settings, len(self.written)
        if settings is not None:
            return int(draw(settings.filter(scores.float()), self.luck[t : t + 1]))
        return int(likeliest(scores, scores, t))

    def end(self, reason: Reason, error: Exception | None = None) -> None:
        self.reason, self.error = reason, error
        self._tell(reason)

    def _tell(self, news: int | Reason, scores: Tensor | None = None) -> None:
        try:
            if self.request.seen and scores is not None and isinstance(news, int):
                self.request.seen(scores, news)
            self.listener(news)
        except Exception:  # a caller's fault is not the others' trouble
            self.is_cancelled = True


class Scheduler(Generic[S]):
    """`submit` and `cancel` may be called from any thread and never wait for a step; `step` is one thread's.

    Between two tokens of those who write at most `chunk` are read for those who come, or one source by an encoder.
    `begin` gives the empty state of one row with `request.room`, its source read where there is one. The state of the
    batch grows with the texts in it, to at most `max_rows` of `max_len` tokens, and is given up when the last has left.
    """

    def __init__(
        self,
        step: Step[S],
        begin: Callable[[Request], S],
        *,
        max_len: int,
        max_rows: int = 8,
        max_waiting: int = 64,
        chunk: int = 64,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.step_model, self.begin, self.clock = step, begin, clock
        self.max_len, self.max_rows, self.max_waiting, self.chunk = max_len, max_rows, max_waiting, chunk
        self.waiting: deque[Ticket] = deque()
        self.reading: tuple[Ticket, S, int] | None = None
        "Who is read, the row it is read into, and how many tokens of the prompt are."
        self.live: list[Ticket] = []
        "Ticket i is written in row i of the state."
        self.state: S | None = None
        self._lock = threading.Lock()  # of those who wait

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting or self.reading or self.live)

    def submit(self, request: Request, listener: Listener = lambda news: None) -> Ticket:
        if request.room > self.max_len:
            raise UserError(
                f"a prompt of {len(request.prompt)} tokens and {request.limit} new ones do not fit into {self.max_len}",
                "ask for fewer new tokens or shorten the prompt",
            )
        deadline = None if request.timeout is None else self.clock() + request.timeout
        ticket = Ticket(request, listener, deadline)
        with self._lock:
            if len(self.waiting) >= self.max_waiting:
                raise Full(f"{self.max_waiting} requests are waiting already", "try again later")
            self.waiting.append(ticket)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """It ends with the next step; if it is over, nothing happens."""
        ticket.is_cancelled = True

    @torch.inference_mode()
    def step(self) -> None:
        """Let go who has given up, read for who comes next, write one token for each who is live."""
        self._let_go(self.clock())
        self._read()
        self._write()

    def cancel_all(self) -> None:
        for ticket in self._everyone():
            ticket.is_cancelled = True
        self._let_go(self.clock())

    def _everyone(self) -> list[Ticket]:
        with self._lock:
            return [*self.waiting, *([self.reading[0]] if self.reading else []), *self.live]

    def _let_go(self, now: float) -> None:
        for ticket in self._everyone():
            if reason := ticket.given_up(now):
                ticket.end(reason)
        with self._lock:
            self.waiting = deque(ticket for ticket in self.waiting if ticket.reason is None)
        if self.reading and self.reading[0].reason is not None:
            self.reading = None
        self._close_ranks()

    def _read(self) -> None:
        budget = self.chunk
        while budget > 0 and (self.reading or self._call_next()):
            assert self.reading is not None
            ticket, row, start = self.reading
            ids = ticket.request.prompt[start : start + budget]
            budget -= len(ids) + (0 if start else len(ticket.request.source))
            self._read_some(ticket, row, ids, start + len(ids))

    def _call_next(self) -> bool:
        """The first of those who wait, if there is a place."""
        while self.reading is None:
            with self._lock:
                if not self.waiting or len(self.live) >= self.max_rows:
                    return False
                ticket = self.waiting.popleft()
            try:
                self.reading = ticket, self.begin(ticket.request), 0
            except Exception as error:
                ticket.end("error", error)
        return True

    def _read_some(self, ticket: Ticket, row: S, ids: tuple[int, ...], end: int) -> None:
        """Who is read to the end gets the first token, and joins if that was not all."""
        self.reading = None
        try:
            scores = self.step_model(torch.tensor([ids], device=row.lengths.device), row, None)  # (1, V)
            if end < len(ticket.request.prompt):
                self.reading = ticket, row, end
                return
            ticket.write(scores)
            if ticket.reason is None:
                self._join(ticket, row)
        except Exception as error:
            ticket.end("error", error)

    def _join(self, ticket: Ticket, row: S) -> None:
        if self.state is None:
            self.state = row
        else:
            self.state.insert(len(self.live), row)
        self.live.append(ticket)

    def _write(self) -> None:
        if self.state is None:
            return
        last = torch.tensor([ticket.written[-1:] for ticket in self.live], device=self.state.lengths.device)
        try:
            scores = self.step_model(last, self.state, None)  # (B, V)
        except Exception as error:
            for ticket in self.live:
                ticket.end("error", error)
        else:
            for ticket, row in zip(self.live, scores.split(1), strict=True):
                ticket.write(row)
        self._close_ranks()

    def _close_ranks(self) -> None:
        """Who is over leaves; the last ones move into the gaps, so that few rows are copied."""
        rows = [row for row, ticket in enumerate(self.live) if ticket.reason is None]
        if len(rows) == len(self.live):
            return
        gaps = [row for row in range(len(rows)) if self.live[row].reason is not None]
        order = list(range(len(rows)))
        for gap, row in zip(gaps, rows[len(rows) - len(gaps) :], strict=True):
            order[gap] = row
        self.live = [self.live[row] for row in order]
        if not self.live:
            self.state = None
        elif self.state is not None:
            self.state.reorder(torch.tensor(order, device=self.state.lengths.device))
