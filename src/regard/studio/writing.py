"""A text of a language model while it is written for one caller, among those of others in the same batch."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from regard.decoding.sample import SampleSettings
from regard.decoding.scheduler import Reason, Request
from regard.decoding.top import top
from regard.errors import UserError
from regard.studio.engine import LATER, Engine, Job
from regard.studio.problem import Gone, Problem
from regard.tasks.draft import Draft
from regard.tasks.generator import Generator, Prompt
from regard.text.words import token_name

GREEDY = SampleSettings(temperature=0.0)

Row = dict[str, Any]


class Text:
    """Lives on the model's thread. `shown` gets each token with its numbers, `ended` the end of it all."""

    def __init__(
        self, task: Generator, job: Job, sampling: SampleSettings | None, stop: Sequence[str], n_top: int | None
    ) -> None:
        self.task, self.job, self.sampling, self.n_top = task, job, sampling, n_top
        self.draft = Draft(task.tokenizer, task.model.config.eos_ids, stop)
        self.shown: Callable[[Row], None] = lambda row: None
        self.begun: Callable[[], None] = lambda: None
        self.ended: Callable[[], None] = lambda: None
        self.prompt: list[int] = []
        self.n_forced = 0
        self._row: Row = {}
        self._at, self._count = time.monotonic(), 0

    def begin(self, engine: Engine, prompt: Prompt, *, limit: int | None, forced: Sequence[int], raw: bool) -> object:
        """Hand the text over to the scheduler; without a limit it may fill what the model takes, to a usual length."""
        task, scheduler = self.task, engine.scheduler
        assert scheduler is not None
        self.prompt, self.n_forced = task.encode(prompt, raw=raw), len(forced)
        ids = [*self.prompt, *forced]
        if forced and max(forced) >= task.model.config.vocab_size:
            raise UserError(f"the token {max(forced)} does not exist", f"ids end at {task.model.config.vocab_size - 1}")
        for id in forced:
            self.draft.add(id)
        if self.draft.reason:
            self.ended()
            return LATER
        room = scheduler.max_len + 1 - len(ids)
        if room < 1:
            longest = task.model.config.max_len
            raise UserError(f"the prompt has {len(ids)} tokens, the model takes {longest}", "shorten it")
        left = self.job.deadline - time.monotonic()
        request = Request(
            tuple(ids),
            min(USUAL, room) if limit is None else limit,
            end_ids=frozenset(task.model.config.eos_ids),
            settings=self.sampling,
            timeout=max(0.1, left),
            seen=self._seen if self.n_top is not None else None,
        )
        ticket = scheduler.submit(request, self._heard)
        self.begun()
        self.ticket = ticket
        self.job.on_cancel = lambda: scheduler.cancel(ticket)
        if self.job.is_cancelled:
            scheduler.cancel(ticket)
        return LATER

    def _seen(self, scores: Tensor, token: int) -> None:
        """Probabilities before and after what sampling leaves out; of the best few, and of the token itself."""
        plain = scores.float()
        base = plain.log_softmax(-1)[0]
        final = (self.sampling or GREEDY).filter(plain)[0].softmax(-1)
        n_top = self.n_top or 0
        best = top(base[None], min(max(n_top, 1), len(base)))[1][0].tolist()[:n_top]
        rows = [self._candidate(id, base, final) for id in best]
        chosen = self._candidate(token, base, final)
        rest = max(0.0, 1.0 - sum(row["p_base"] for row in rows))
        self._row = {**chosen, "top": rows, "rest": rest}

    def _candidate(self, id: int, base: Tensor, final: Tensor) -> Row:
        log, after = float(base[id]), float(final[id])
        numbers = {"p_base": float(base[id].exp()), "p_final": after, "kept": after > 0.0, "log": log}
        return {"id": id, "text": token_text(self.task, id), **numbers}

    def _heard(self, news: int | Reason) -> None:
        """A listener that raises is taken to have left; whatever happens, the job ends once."""
        try:
            if isinstance(news, int):
                self._next(news)
            elif not self.job.is_over:
                self._over(news)
        except BaseException as error:
            self.job.fail(error)
            raise Gone from error

    def _next(self, id: int) -> None:
        if self.draft.reason:  # it met a stop string and is on its way out
            return
        now = time.monotonic()
        piece = self.draft.add(id)
        row = {"i": self._count, "id": id, **self._row, "piece": piece, "ms": round(1000 * (now - self._at), 3)}
        self._count, self._at = self._count + 1, now
        self.job.check()
        self.shown(row)
        if self.draft.reason == "stop":
            self.ended()
            self.job.cancel()

    def _over(self, reason: Reason) -> None:
        if reason in ("end", "limit"):
            self.tail = self.draft.close()
            self.ended()
        elif reason == "timeout":
            self.job.fail(Problem(504, "the request took too long", hint="ask for fewer tokens", code="timeout"))
        elif reason == "error":
            self.job.fail(self.ticket.error or Gone())
        else:
            self.job.fail(Gone())

    tail = ""
    "What was held back until it was known that nothing follows."


USUAL = 256
"Tokens that are written where nobody says how many."


def token_text(task: Generator, id: int) -> str:
    """As it is written, spaces too; a token that alone is no text by its name."""
    text = task.tokenizer.decode([id])
    return text if text and "\ufffd" not in text else token_name(id, task.tokenizer)
