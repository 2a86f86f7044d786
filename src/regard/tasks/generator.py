"""Continue a text, or answer in a chat, with a language model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.decoding.search import greedy
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.text.chat import render
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Generation:
    text: str
    ids: tuple[int, ...]
    reason: str
    "Why it ended: 'end' (the model said so) or 'limit'."

    def __str__(self) -> str:
        return self.text


class Generator:
    """`generate("Once upon a time")`; a list of {"role", "content"} messages goes through the chat template."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model = model
        self.tokenizer = tokenizer

    def __call__(self, prompt: str | Sequence[dict[str, str]], *, limit: int = 128) -> Generation:
        ids: list[int] = []
        for token in self._tokens(prompt, limit):
            ids.append(token)
        ended = bool(ids) and ids[-1] in self.model.config.eos_ids
        text = self.tokenizer.decode(ids[:-1] if ended else ids)
        return Generation(text, tuple(ids), "end" if ended else "limit")

    def stream(self, prompt: str | Sequence[dict[str, str]], *, limit: int = 128) -> Iterator[str]:
        """The text piece by piece; the pieces joined are the whole text."""
        ids: list[int] = []
        shown = ""
        for token in self._tokens(prompt, limit):
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
    def _tokens(self, prompt: str | Sequence[dict[str, str]], limit: int) -> Iterator[int]:
        ids = self.encode(prompt)
        room = self.model.config.max_len - len(ids)
        if room < 1:
            raise UserError(f"the prompt has {len(ids)} tokens, the model takes {self.model.config.max_len}")
        limit = min(limit, room)
        state = self.model.new_state(1, len(ids) + limit)
        prompt_ids = torch.tensor([ids], device=self.model.device)
        for token in greedy(self.model.step, state, prompt_ids, limit=limit, end_ids=self.model.config.eos_ids):
            yield int(token[0])

    def encode(self, prompt: str | Sequence[dict[str, str]]) -> list[int]:
        if isinstance(prompt, str):
            ids = self.tokenizer.encode(prompt).ids
        elif self.tokenizer.chat_template is None:
            raise UserError("this model has no chat template", "give the prompt as one text")
        else:
            text = render(self.tokenizer.chat_template, prompt, special=self.tokenizer.special)
            ids = self.tokenizer.encode(text, special=False).ids
        start = self.tokenizer.bos_id if self.tokenizer.bos_id is not None else self.model.config.bos_id
        if not ids and start is None:
            raise UserError("the prompt is empty", "this model needs at least one token to continue")
        return ids or [start]

    def summary(self) -> Summary:
        return summarise(self.model)
