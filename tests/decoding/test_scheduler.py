"""Many texts in one batch, coming and going: each is what it would be alone, and nobody's place is lost."""

from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from torch import Tensor

from decoding import writers
from decoding.writers import ENDS, VOCAB
from models import tiny
from regard.decoding.sample import SampleSettings, sample
from regard.decoding.scheduler import Full, Reason, Request, Scheduler, Ticket
from regard.decoding.search import greedy
from regard.errors import UserError

TIE = 1e-4
"Where the two best scores are nearer than this, a batch may choose the other one."
LANGUAGE_MODELS = ["gpt2", "llama", "gpt2 local"]  # learned, rotary, windowed positions
NAMES = [*LANGUAGE_MODELS, "transformer", "t5", "rnn", "lstm additive"]
MAX_LEN, MAX_ROWS, MAX_WAITING = 20, 3, 4
START = (VOCAB - 1,)

names = pytest.mark.parametrize("name", NAMES)


@cache
def model_of(name: str) -> Any:
    if name in LANGUAGE_MODELS:
        return tiny.make(name, vocab_size=VOCAB, eos_ids=ENDS, max_len=MAX_LEN)
    return writers.make(name)


def begin(name: str, request: Request) -> Any:
    model = model_of(name)
    if not request.source:
        return model.new_state(1, request.room)
    return model.new_state(model.encode(torch.tensor([request.source])), None, request.room)


def requests(name: str) -> list[Request]:
    """A fixed few of all kinds."""
    texts = [(3, 4, 5), (9,), (7, 3, 7, 3, 7, 3, 7), (8, 8), (10, 4), (6, 5, 4, 3, 6, 5, 4, 3, 6, 5, 4)]
    kinds = [None, SampleSettings(seed=1), SampleSettings(temperature=0.7, top_k=5, top_p=0.9, seed=2), None]
    made = []
    for i, text in enumerate(texts * 2):
        prompt = {"prompt": text} if name in LANGUAGE_MODELS else {"prompt": START, "source": text}
        timeout = None if i % 3 else 5.0
        made.append(Request(**prompt, limit=1 + i % 9, end_ids=frozenset(ENDS), settings=kinds[i % 4], timeout=timeout))  # type: ignore[arg-type]
    return made


class Alone(NamedTuple):
    ids: list[int]
    reason: Reason
    n_sure: int
    "Tokens before the first that was almost another."


@cache
def alone(name: str, request: Request) -> Alone:
    margins: list[float] = []

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores: Tensor = model_of(name).step(ids, state, valid)
        margins.append(float(-scores[0].topk(2).values.diff()))
        return scores

    common = {"limit": request.limit, "end_ids": request.end_ids}
    with torch.no_grad():
        place = step, begin(name, request), torch.tensor([request.prompt])
        drawn = request.settings
        tokens = greedy(*place, **common) if drawn is None else sample(*place, drawn, **common)  # type: ignore[arg-type]
        ids = [int(token) for token in tokens]
    close = [t for t, margin in enumerate(margins) if margin < TIE and drawn is None]
    return Alone(ids, "end" if ids[-1] in request.end_ids else "limit", min(close, default=len(ids)))


def make(name: str, **sizes: Any) -> Scheduler[Any]:
    sizes = {"max_len": MAX_LEN, "max_rows": MAX_ROWS, "max_waiting": MAX_WAITING, "chunk": 4} | sizes
    return Scheduler(model_of(name).step, lambda request: begin(name, request), **sizes)


def assert_as_alone(name: str, ticket: Ticket) -> None:
    expected = alone(name, ticket.request)
    n = min(len(ticket.written), expected.n_sure)
    assert ticket.written[:n] == expected.ids[:n]
    if ticket.reason in ("end", "limit") and expected.n_sure == len(expected.ids):
        assert ticket.written == expected.ids
        assert ticket.reason == expected.reason


def assert_no_slot_leaks(scheduler: Scheduler[Any]) -> None:
    assert len(scheduler.live) + bool(scheduler.reading) <= scheduler.max_rows
    assert len(scheduler.waiting) <= scheduler.max_waiting
    assert all(ticket.reason is None for ticket in scheduler.live)
    if scheduler.state is None:
        assert not scheduler.live
    else:
        held = [len(ticket.request.prompt) + len(ticket.written) - 1 for ticket in scheduler.live]
        assert scheduler.state.lengths.tolist() == held


def run(scheduler: Scheduler[Any], *, at_most: int = 300) -> None:
    for _ in range(at_most):
        if not scheduler.is_busy:
            return
        scheduler.step()
        assert_no_slot_leaks(scheduler)
    raise AssertionError("it never comes to rest")


# --- any order of events --------------------------------------------------------------------------------------------


class Service(RuleBasedStateMachine):
    """Callers come, leave and lose patience in any order."""

    name: str

    @initialize()
    def start(self) -> None:
        self.now = 0.0
        self.scheduler = make(self.name, clock=lambda: self.now)
        self.tickets: list[Ticket] = []
        self.heard: dict[Ticket, list[int | Reason]] = {}
        self.begun: list[Ticket] = []
        self.cancelled: set[Ticket] = set()

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(requests(self.name)))
        news: list[int | Reason] = []
        if len(self.scheduler.waiting) == MAX_WAITING:
            with pytest.raises(Full):
                self.scheduler.submit(request, news.append)
            return
        ticket = self.scheduler.submit(request, lambda item: self.hear(ticket, item))
        self.tickets.append(ticket)
        self.heard[ticket] = news

    def hear(self, ticket: Ticket, news: int | Reason) -> None:
        if not self.heard[ticket] and isinstance(news, int):
            self.begun.append(ticket)
        self.heard[ticket].append(news)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.tickets:
            ticket = data.draw(st.sampled_from(self.tickets))
            self.cancelled |= {ticket} if ticket.reason is None else set()
            self.scheduler.cancel(ticket)

    @rule(times=st.integers(1, 4))
    def step(self, times: int) -> None:
        for _ in range(times):
            self.scheduler.step()
            open_ones = [ticket for ticket in self.tickets if ticket.reason is None]
            assert not self.cancelled & set(open_ones)
            assert all(ticket.deadline is None or self.now < ticket.deadline for ticket in open_ones)

    @rule(seconds=st.floats(0.1, 3.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def no_slot_leaks(self) -> None:
        assert_no_slot_leaks(self.scheduler)
        known = [*self.scheduler.waiting, *self.scheduler.live, *(self.scheduler.reading or ())[:1]]
        assert set(known) == {ticket for ticket in self.tickets if ticket.reason is None}
        assert len(set(known)) == len(known)

    @invariant()
    def everybody_hears_exactly_what_is_theirs(self) -> None:
        for ticket in self.tickets:
            over = [] if ticket.reason is None else [ticket.reason]
            assert self.heard[ticket] == ticket.written + over
            assert_as_alone(self.name, ticket)
            assert ticket.error is None
            if ticket.reason == "cancelled":
                assert ticket in self.cancelled
            if ticket.reason == "timeout":
                assert ticket.deadline is not None
                assert ticket.deadline <= self.now

    @invariant()
    def first_come_first_served(self) -> None:
        assert self.begun == [ticket for ticket in self.tickets if ticket in set(self.begun)]

    def teardown(self) -> None:
        run(self.scheduler)
        assert all(ticket.reason is not None for ticket in self.tickets)
        self.everybody_hears_exactly_what_is_theirs()
        assert self.scheduler.state is None


@names
def test_whatever_happens_each_text_is_as_if_alone_and_no_slot_leaks(name: str) -> None:
    machine = type("Service", (Service,), {"name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=25, deadline=None))


@names
def test_the_trial_texts_end_in_both_ways_and_are_no_ties(name: str) -> None:
    found = [alone(name, request) for request in requests(name)]
    assert {each.reason for each in found} == {"end", "limit"}
    assert all(each.n_sure == len(each.ids) for each in found)
    assert len({tuple(each.ids) for each in found}) > 6


# --- what it costs --------------------------------------------------------------------------------------------------


def test_a_step_has_a_row_for_each_live_text_and_no_other() -> None:
    sizes: list[tuple[int, ...]] = []
    model = model_of("llama")

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        sizes.append(tuple(ids.shape))
        return model.step(ids, state, valid)

    scheduler = Scheduler(step, lambda request: model.new_state(1, request.room), max_len=MAX_LEN, chunk=4)
    for limit in (2, 4, 6):
        scheduler.submit(Request((3, 4), limit))
    run(scheduler)
    assert sizes == [(1, 2), (1, 2), (2, 1), (1, 2), (2, 1), (2, 1), (1, 1), (1, 1), (1, 1)]


def test_a_long_prompt_is_read_in_pieces_while_others_write() -> None:
    scheduler = make("gpt2")
    first = scheduler.submit(Request((3, 4), 8))
    scheduler.step()
    long = scheduler.submit(Request((6, 5, 4, 3) * 3, 2))
    before = len(first.written)
    for n in (1, 2):
        scheduler.step()
        assert not long.written
        assert len(first.written) == before + n
    run(scheduler)
    assert_as_alone("gpt2", long)


# --- what may go wrong ----------------------------------------------------------------------------------------------


def test_a_request_that_cannot_fit_is_refused_at_once() -> None:
    scheduler = make("gpt2")
    scheduler.submit(Request((3,) * MAX_LEN, 1))
    with pytest.raises(UserError, match=f"{MAX_LEN} tokens and 2 new"):
        scheduler.submit(Request((3,) * MAX_LEN, 2))
    assert len(scheduler.waiting) == 1


@pytest.mark.parametrize("bad", [{"prompt": ()}, {"limit": 0}])
def test_nonsense_is_the_users_error(bad: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Request(**{"prompt": (1,), "limit": 1} | bad)


def test_one_that_cannot_be_read_ends_alone() -> None:
    scheduler = make("gpt2")
    good = [scheduler.submit(request) for request in requests("gpt2")[:2]]
    bad = scheduler.submit(Request((3, VOCAB + 100), 4))
    good.append(scheduler.submit(requests("gpt2")[2]))
    run(scheduler)
    assert (bad.reason, type(bad.error), bad.written) == ("error", IndexError, [])
    for ticket in good:
        assert_as_alone("gpt2", ticket)
        assert ticket.reason in ("end", "limit")


@pytest.mark.parametrize("drawn", [None, SampleSettings(temperature=0.1)])
def test_a_row_without_numbers_ends_alone(drawn: SampleSettings | None) -> None:
    bad, good = Request((3, 4), 5, settings=drawn), Request((10, 4), 5)
    written = alone("llama", bad).ids
    cursed = next(id for id in written[:-1] if id not in alone("llama", good).ids)

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores = model_of("llama").step(ids, state, valid)
        return scores.masked_fill(ids[:, -1:] == cursed, torch.nan)

    scheduler = Scheduler(step, lambda request: begin("llama", request), max_len=MAX_LEN)
    first, second = scheduler.submit(bad), scheduler.submit(good)
    run(scheduler)
    assert (first.reason, first.written) == ("error", written[: written.index(cursed) + 1])
    assert "NaN" in str(first.error)
    assert (second.reason, second.written) == ("limit", alone("llama", good).ids)


def test_a_step_that_fails_ends_those_in_it_and_the_next_are_served() -> None:
    calls = [0]

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        calls[0] += 1
        if calls[0] == 4:
            raise RuntimeError("out of memory")
        return model_of("llama").step(ids, state, valid)

    scheduler = Scheduler(step, lambda request: begin("llama", request), max_len=MAX_LEN, max_rows=2)
    first, second, third = (scheduler.submit(Request((3, 4), 5)) for _ in range(3))
    run(scheduler)
    assert [ticket.reason for ticket in (first, second, third)] == ["error", "error", "limit"]
    assert_as_alone("llama", third)


def test_a_caller_who_no_longer_listens_has_left() -> None:
    def deaf(news: int | Reason) -> None:
        raise RuntimeError("the event loop is closed")

    scheduler = make("llama")
    gone, other = scheduler.submit(Request((3, 4), 9), deaf), scheduler.submit(Request((3, 4), 9))
    run(scheduler)
    assert gone.reason == "cancelled"
    assert len(gone.written) < len(other.written)
    assert_as_alone("llama", other)


def test_any_number_of_requests_may_fail_before_they_are_read() -> None:
    def refuse(request: Request) -> Any:
        raise UserError("no room")

    scheduler: Scheduler[Any] = Scheduler(lambda *_: torch.zeros(1, 2), refuse, max_len=8, max_waiting=3000)
    tickets = [scheduler.submit(Request((1,), 1)) for _ in range(3000)]
    scheduler.step()
    assert {ticket.reason for ticket in tickets} == {"error"}
