"""Continue a text, or answer in a chat, with a language model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.config import require
from regard.decoding.search import greedy
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.tasks.generation import AS_CONFIGURED, Writing
from regard.text.tokenizer import Tokenizer

Prompt = str | Sequence[dict[str, str]]
'One text, or a conversation of {"role", "content"} messages.'


@dataclass(frozen=True)
class Generation:
    text: str
    ids: tuple[int, ...]
    reason: str
    "Why it ended: 'end' (the model said so) or 'limit'."

    def __str__(self) -> str:
        return self.text


class Generator:
    """`generate("What is the capital of France?")` gives a `Generation`.

    A model with a chat template is asked through it; `raw` continues the text as it stands. Models without one
    always do.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, writing: Writing = AS_CONFIGURED) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._silent = torch.tensor(writing.silent_ids, dtype=torch.long, device=model.device)
        self._first = () if writing.first_id is None else (writing.first_id,)

    def __call__(self, prompt: Prompt, *, limit: int = 128, raw: bool = False) -> Generation:
        ids = list(self._tokens(prompt, limit, raw))
        ended = bool(ids) and ids[-1] in self.model.config.eos_ids
        text = self.tokenizer.decode(ids[:-1] if ended else ids)
        return Generation(text, tuple(ids), "end" if ended else "limit")

    def stream(self, prompt: Prompt, *, limit: int = 128, raw: bool = False) -> Iterator[str]:
        """The text piece by piece; the pieces joined are the whole text."""
        ids: list[int] = []
        shown = ""
        for token in self._tokens(prompt, limit, raw):
            if token in self.model.config.eos_ids:
                break
            ids.append(token)
            text = self.tokenizer.decode(ids)
            if not text.endswith("\ufffd"):  # half a character: its other bytes are still to come
                yield text[len(shown) :]
                shown = text
        rest = self.tokenizer.decode(ids)[len(shown) :]
        if rest:
            yield rest

    @torch.inference_mode()
    def _tokens(self, prompt: Prompt, limit: int, raw: bool) -> Iterator[int]:
        require(limit >= 1, f"at most {limit} new tokens", "expected at least 1")
        ids, longest = self.encode(prompt, raw=raw), self.model.config.max_len
        if len(ids) >= longest:
            raise UserError(f"the prompt has {len(ids)} tokens, the model takes {longest}", "shorten it")
        limit = min(limit, longest - len(ids))
        state = self.model.new_state(1, len(ids) + limit)
        prompt_ids = torch.tensor([ids], device=self.model.device)
        ends, prefix = self.model.config.eos_ids, [self._first if len(ids) == 1 else ()]  # as in transformers
        for token in greedy(self._step, state, prompt_ids, limit=limit, end_ids=ends, prefix=prefix):
            yield int(token[0])

    def _step(self, ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        scores: Tensor = self.model.step(ids, state, valid)
        scores[:, self._silent] = -torch.inf
        return scores

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
