"""Does a scheduler stay sound under load? Many callers of SmolLM2-135M who come, leave and lose patience.

    python benchmarks/load.py [--minutes 20] [--rows 8] [--precision fp32]

Every finished answer is compared with the answer alone; every unfinished one must be its beginning. Where they part,
the two best scores at that place must be nearer than the tolerance: a batch adds in another order than one row does.
Memory is looked at every second: in the last quarter it may not be above that of the second.
"""

import argparse
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from harness import machine, report

from regard.decoding.sample import SampleSettings, sample
from regard.decoding.scheduler import Full, Request, Scheduler, Ticket
from regard.decoding.search import greedy
from regard.decoding.worker import Worker
from regard.pretrained.installed import path_of
from regard.tasks.generator import Generator
from regard.weights.precision import DTYPES
from regard.weights.store import load_model
from regard.weights.vocabulary import tokenizers_of

QUESTIONS = [
    "Why is the sky blue?",
    "List five rivers of Europe.",
    "Write a haiku about rain.",
    "Translate 'good morning' into French, Spanish and Italian, and say how each of the three is pronounced.",
    "What is a prime number? Give three examples, and say why nine is not one of them although it is odd.",
    "Count from one to twenty. " * 12,
    "Here is a log of a machine: " + "the pump started, the valve opened, the pump stopped; " * 20 + "what went wrong?",
]
TIE = {"fp32": 1e-4, "fp16": 1e-4, "int8": 1e-2}
"Scores nearer than this may change places in a batch."
LUCK = 1e-3
"A drawn number nearer than this to the border between two tokens may fall on the other side."


@dataclass(eq=False)
class Call:
    ticket: Ticket
    started: float
    times: list[float]
    "Of each token, and of the end."
    patience: int
    "Tokens after which the caller leaves."


class Trial:
    """The requests of this trial and their answers alone."""

    def __init__(self, model: Any, requests: list[Request], tie: float) -> None:
        self.model, self.tie = model, tie
        self.answers = {request: self.alone(request) for request in requests}

    @torch.inference_mode()
    def alone(self, request: Request) -> list[int]:
        place = self.model.step, self.model.new_state(1, request.room), torch.tensor([request.prompt])
        common = {"limit": request.limit, "end_ids": request.end_ids}
        if request.settings is None:
            return [int(id) for id in greedy(*place, **common)]
        return [int(id) for id in sample(*place, request.settings, **common)]

    def verdict(self, ticket: Ticket) -> str:
        theirs = self.answers[replace(ticket.request, timeout=None)]
        expected = theirs if ticket.reason in ("end", "limit") else theirs[: len(ticket.written)]
        if ticket.written == expected:
            return "same"
        pairs = zip(ticket.written, theirs, strict=False)
        at = next((t for t, (ours, their) in enumerate(pairs) if ours != their), None)
        return "wrong" if at is None or not self.is_close(ticket.request, ticket.written, at) else "tie"

    @torch.inference_mode()
    def is_close(self, request: Request, written: list[int], at: int) -> bool:
        ids = torch.tensor([[*request.prompt, *written[:at]]])
        scores = self.model.step(ids, self.model.new_state(1, ids.size(1)))[0].float()
        if request.settings is None:
            return float(-scores.topk(2).values.diff()) < self.tie
        shares = request.settings.filter(scores).softmax(-1).double()
        token, luck = written[at], Ticket(request, print, None).luck[at]
        end = shares.cumsum(-1)[token]
        return bool(end - shares[token] - LUCK <= luck <= end + LUCK)


def make_requests(generator: Generator) -> list[Request]:
    ends = frozenset(generator.model.config.eos_ids)
    settings = [None, SampleSettings(temperature=0.7, top_p=0.9, seed=5), None]
    return [
        Request(tuple(generator.encode(question)), limit, end_ids=ends, settings=settings[i % 3])
        for i, question in enumerate(QUESTIONS)
        for limit in (12, 24, 48)
    ]


def resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


class Load:
    """Calls that come at random; some are cancelled, some lose patience."""

    def __init__(self, worker: Worker[Any], requests: list[Request], rows: int) -> None:
        self.worker, self.requests, self.rows = worker, requests, rows
        self.random = random.Random(0)
        self.open: list[Call] = []
        self.closed: list[Call] = []
        self.memory: list[tuple[float, float]] = []
        self.refused = 0

    def run(self, seconds: float) -> None:
        start = time.perf_counter()
        while (now := time.perf_counter() - start) < seconds:
            if not self.memory or now - self.memory[-1][0] >= 1:
                self.memory.append((now, resident()))
            self.turn()
            time.sleep(0.02)

    def turn(self) -> None:
        over = [call for call in self.open if call.ticket.reason is not None]
        self.closed += over
        self.open = [call for call in self.open if call not in over]
        for call in self.open:
            if len(call.times) >= call.patience:
                self.worker.cancel(call.ticket)
        # Now a few, now more than there are places: the batch fills and empties again.
        wanted = self.rows * (2 if time.perf_counter() % 60 < 40 else 0.4)
        if len(self.open) < wanted and self.random.random() < 0.3:
            self.call()

    def call(self) -> None:
        request = self.random.choice(self.requests)
        if self.random.random() < 0.1:
            request = replace(request, timeout=self.random.uniform(0.5, 5))
        started, times = time.perf_counter(), list[float]()
        try:
            ticket = self.worker.submit(request, lambda news: times.append(time.perf_counter()))
        except Full:
            self.refused += 1
        else:
            patience = self.random.randrange(20) if self.random.random() < 0.1 else 1_000_000
            self.open.append(Call(ticket, started, times, patience))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--precision", choices=list(TIE), default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    path = path_of("smollm2")
    model: Any = load_model(path, dtype=DTYPES[options.precision]).fuse()
    requests = make_requests(Generator(model, tokenizers_of(path)[0]))
    trial = Trial(model, requests, TIE[options.precision])
    scheduler = Scheduler(model.step, lambda request: model.new_state(1, request.room), max_len=1024,
                          max_rows=options.rows, max_waiting=options.rows)  # fmt: skip
    with Worker(scheduler) as worker:
        load = Load(worker, requests, options.rows)
        load.run(60 * options.minutes)
    tell(options, load, trial)


def tell(options: argparse.Namespace, load: Load, trial: Trial) -> None:
    calls = load.closed + load.open
    verdicts = Counter(trial.verdict(call.ticket) for call in calls)
    gaps = sorted(b - a for call in calls for a, b in zip(call.times, call.times[1:-1], strict=False))
    first = sorted(call.times[0] - call.started for call in calls if call.ticket.written)
    quarter = len(load.memory) // 4
    before, after = (statistics.median(size for _, size in part) for part in
                     (load.memory[quarter : 2 * quarter + 1], load.memory[-quarter - 1 :]))  # fmt: skip
    reasons = Counter(call.ticket.reason for call in calls)
    rows = [
        ["calls", f"{len(calls)}, {load.refused} refused, " + ", ".join(f"{n} {why}" for why, n in reasons.items())],
        ["tokens", f"{sum(len(call.ticket.written) for call in calls)}"],
        ["answers as alone", ", ".join(f"{n} {name}" for name, n in verdicts.items())],
        ["between two tokens", f"{at(gaps, 0.5):.0f} ms median, {at(gaps, 0.99):.0f} ms p99"],
        ["to the first token", f"{at(first, 0.5):.0f} ms median, {at(first, 0.99):.0f} ms p99"],
        ["memory, second and last quarter", f"{before:.0f} MB, {after:.0f} MB"],
    ]
    data = {
        "machine": machine(()), "minutes": options.minutes, "rows": options.rows, "precision": options.precision,
        "calls": len(calls), "reasons": reasons, "verdicts": verdicts, "gap_ms": [at(gaps, 0.5), at(gaps, 0.99)],
        "first_ms": [at(first, 0.5), at(first, 0.99)], "memory_mb": [before, after],
    }  # fmt: skip
    report("load", ["", "measured"], rows, data)
    assert not verdicts["wrong"], "an answer differs from the answer alone"


def at(values: list[float], share: float) -> float:
    return 1e3 * values[int(share * (len(values) - 1))]


if __name__ == "__main__":
    main()
