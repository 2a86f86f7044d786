"""Continue a text, or answer in a chat, with a language model."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.config import require
from regard.decoding.sample import SampleSettings, sample
from regard.decoding.scheduler import Scheduler
from regard.decoding.search import greedy
from regard.decoding.speculate import speculate
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.tasks.batching import batches, chunks, padded
from regard.tasks.draft import Draft, Generation, fill
from regard.tasks.generation import AS_CONFIGURED, Writing
from regard.text.tokenizer import Tokenizer

Prompt = str | Sequence[dict[str, str]]
'One text, or a conversation of {"role", "content"} messages.'

BATCH_TOKENS = 4096
"Tokens, those still to be written and the padding too, that are held at once."
FIRST_CHUNK, LAST_CHUNK = 8, 256
"Prompts that are read before the first and before every later result."


class Generator:
    """`generate("What is the capital of Japan?")` gives a `Generation`.

    A model with a chat template is asked through it; `raw` continues the text as it stands. Models without one
    always do. The likeliest token is written, or with `sampling` one that is drawn; the text ends before the first
    of the texts in `stop`.
    """

    lookup = False
    "Whether the likeliest tokens are guessed from what the text repeats and only checked (speculate.py)."

    def __init__(self, model: Any, tokenizer: Tokenizer, writing: Writing = AS_CONFIGURED) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._silent = torch.tensor(writing.silent_ids, dtype=torch.long, device=model.device)
        self._first = () if writing.first_id is None else (writing.first_id,)

    def __call__(
        self,
        prompt: Prompt,
        *,
        limit: int = 128,
        raw: bool = False,
        sampling: SampleSettings | None = None,
        stop: Sequence[str] = (),
    ) -> Generation:
        return next(self.many([prompt], limit=limit, raw=raw, sampling=sampling, stop=stop))

    def stream(
        self,
        prompt: Prompt,
        *,
        limit: int = 128,
        raw: bool = False,
        sampling: SampleSettings | None = None,
        stop: Sequence[str] = (),
        number: int = 0,
    ) -> Iterator[str]:
        """The text piece by piece; the pieces joined are the whole text.

        `number` is that of the prompt among several, by which it draws; those of `many` count from 0.
        """
        draft, ids = self._draft(stop), self.encode(prompt, raw=raw)
        for (id,) in self._tokens([ids], [number], limit, sampling):
            if piece := draft.add(id):
                yield piece
            if draft.reason:
                return
        if piece := draft.close():
            yield piece

    def many(
        self,
        prompts: Iterable[Prompt],
        *,
        limit: int = 128,
        raw: bool = False,
        sampling: SampleSettings | None = None,
        stop: Sequence[str] = (),
        first: int = 0,
        heard: Callable[[int], None] | None = None,
    ) -> Iterator[Generation]:
        """In the order of `prompts`, of which never more than a chunk is held; those alike in length go together.

        Each text is as if alone; a drawn one depends on the seed and on the number of its prompt, counted from `first`.
        `heard` is told meanwhile how many are done.
        """
        if isinstance(prompts, str):
            raise UserError("one text was given where several are expected", "write generate(text)")
        done = first
        for chunk in chunks(prompts, FIRST_CHUNK, LAST_CHUNK):
            rows, first = [self.encode(prompt, raw=raw) for prompt in chunk], done
            drafts = [self._draft(stop) for _ in chunk]
            for batch in batches([self._room(ids, limit) for ids in rows], BATCH_TOKENS):
                tokens = self._tokens([rows[i] for i in batch], [first + i for i in batch], limit, sampling)
                fill([drafts[i] for i in batch], tokens)
                done += len(batch)
                if heard:
                    heard(done)
            yield from (draft.generation() for draft in drafts)

    def _draft(self, stop: Sequence[str]) -> Draft:
        return Draft(self.tokenizer, self.model.config.eos_ids, stop)

    def _room(self, ids: Sequence[int], limit: int) -> float:
        """Tokens that a prompt may come to; where the model ends before, it stays alone, for it ends before others."""
        return len(ids) + limit if len(ids) + limit <= self.model.config.max_len else math.inf

    @torch.inference_mode()
    def _tokens(
        self, rows: Sequence[Sequence[int]], numbers: Sequence[int], limit: int, sampling: SampleSettings | None
    ) -> Iterator[list[int]]:
        """Yields the next id of each row."""
        require(limit >= 1, f"at most {limit} new tokens", "expected at least 1")
        width, longest = max(map(len, rows)), self.model.config.max_len
        if width >= longest:
            raise UserError(f"the prompt has {width} tokens, the model takes {longest}", "shorten it")
        limit = min(limit, longest - width)
        state = self.model.new_state(len(rows), width + limit)
        prompt, valid = padded(rows, 0, self.model.device)
        ends: dict[str, Any] = {"limit": limit, "end_ids": self.model.config.eos_ids}
        begins: dict[str, Any] = {
            "valid": valid,
            "prefix": [self._first if len(row) == 1 else () for row in rows],  # as in transformers
        }
        if sampling is not None:
            columns = sample(self._step, state, prompt, sampling, numbers=numbers, **ends, **begins)
        elif self.lookup and len(rows) == 1 and width > 1:
            columns = speculate(self._steps, state, prompt, **ends)
        else:
            columns = greedy(self._step, state, prompt, **ends, **begins)
        for column in columns:
            yield column.tolist()

    def _step(self, ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores: Tensor = self.model.step(ids, state, valid)
        scores[:, self._silent] = -torch.inf
        return scores

    def _steps(self, ids: Tensor, state: Any, n_last: int) -> Tensor:
        scores: Tensor = self.model.steps(ids, state, n_last)
        scores[..., self._silent] = -torch.inf
        return scores

    def scheduler(self, **sizes: Any) -> Scheduler[Any]:
        """Texts of many callers in one batch, each as if alone: what a server gives to its thread."""
        model = self.model
        return Scheduler(
            self._step, lambda request: model.new_state(1, request.room), max_len=model.config.max_len, **sizes
        )

    def fits(self, prompt: Prompt, *, raw: bool = False) -> bool:
        """Whether there is room for it and a token more."""
        return len(self.encode(prompt, raw=raw)) < self.model.config.max_len

    def encode(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        template = None if raw else self.tokenizer.chat_template
        if template is not None:
            from regard.text.chat import render  # slow to import, and only chat models need it

            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            text = render(template, messages, special=self.tokenizer.special)
            ids = self.tokenizer.encode(text, special=False).ids  # the template has written them
        elif isinstance(prompt, str):
            ids = self.tokenizer.encode(prompt).ids
        else:
            what = "messages cannot be continued as they stand" if raw else "this model has no chat template"
            raise UserError(what, "give the prompt as one text")
        start = self.tokenizer.bos_id if self.tokenizer.bos_id is not None else self.model.config.bos_id
        if not ids and start is None:
            raise UserError("the prompt is empty", "this model needs at least one token to continue")
        return ids or [start]

    def summary(self) -> Summary:
        return summarise(self.model)
