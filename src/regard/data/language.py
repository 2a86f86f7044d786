"""Texts for a language model: whole documents, or answers to prompts that are only given.

Each document is a row of its own, so none sees another; rows of like length go together (batches.py), so hardly
anything is padded and nothing has to be packed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Row
from regard.data.examples import Encoded, OfOneTokenizer
from regard.data.pairs import padded
from regard.data.shards import Shards
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Documents(OfOneTokenizer):
    """A row is a text, or a prompt and its answer. Columns: ids; how many of them are only given.

    A long text is cut into pieces that share one token, so that each token but the first has to be foreseen once.
    """

    tokenizer: Tokenizer
    max_len: int

    @property
    def limits(self) -> tuple[int, ...]:
        return self.tokenizer.vocab_size, self.max_len + 2

    @property
    def rules(self) -> Mapping[str, object]:
        return {"max_len": self.max_len, "template": self.tokenizer.chat_template}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        if len(rows[0]) not in (1, 2):
            raise UserError(f"a row has {len(rows[0])} columns", "name that of the text, or of prompt and answer")
        for row in rows:
            if not all(map(str.strip, row)):
                yield Encoded([], is_empty=True)
            else:
                yield self._text(row[0]) if len(row) == 1 else self._answer(*row)

    def _text(self, text: str) -> Encoded:
        ids = self.tokenizer.encode_ids([text])[0]
        start = self.tokenizer.bos_id if self.tokenizer.bos_id is not None else self.tokenizer.eos_id
        ids = ids if start is None or ids[:1] == [start] else [start, *ids]
        end = self.tokenizer.eos_id
        ids = ids if end is None or ids[-1:] == [end] else [*ids, end]
        pieces = [ids[at : at + self.max_len + 1] for at in range(0, len(ids) - 1, self.max_len)]
        return Encoded([(piece, [1]) for piece in pieces], n_too_many=len(ids) if len(pieces) > 1 else 0)

    def _answer(self, prompt: str, answer: str) -> Encoded:
        given, whole = self._rendered(prompt, answer)
        if whole[: len(given)] != given:
            raise UserError("the prompt's tokens change when its answer follows", "give the text as one column")
        too_long = len(whole) if len(whole) > self.max_len + 1 else 0
        if len(given) > self.max_len:
            return Encoded([], n_too_many=too_long)
        return Encoded([(whole[: self.max_len + 1], [max(len(given), 1)])], n_too_many=too_long)

    def _rendered(self, prompt: str, answer: str) -> tuple[list[int], list[int]]:
        """Ids of the prompt, and of prompt and answer: through the chat template, where the model has one."""
        template = self.tokenizer.chat_template
        end = [] if self.tokenizer.eos_id is None else [self.tokenizer.eos_id]
        if template is None:
            given = self.tokenizer.encode_ids([prompt])[0]
            return given, [*given, *self.tokenizer.encode_ids([answer], special=False)[0], *end]
        from regard.text.chat import render  # slow to import, and only chat models need it

        asked = render(template, [{"role": "user", "content": prompt}], special=self.tokenizer.special)
        given, said = self.tokenizer.encode_ids([asked, answer], special=False)
        return given, [*given, *said, *end]


@dataclass
class TextBatch:
    """Texts for a causal language model."""

    ids_in: Tensor  # (B, T), or (B, M + T) where M tokens before a window are looked back at (stream.py)
    ids_out: Tensor  # (B, T)
    valid: Tensor  # (B, T)
    "What is to be learnt: not padding, and not what was only given."
    n_targets: int
    rows: np.ndarray
    documents: Tensor | None = None  # as ids_in
    "Which text of its row each token is of, where a row holds several (stream.py)."
    drawn: Tensor | None = None  # (K)
    "Words that stand for the whole vocabulary, where it is not gone through (noise.py)."
    expected: Tensor | None = None  # (K)
    "How many times each of them was to be expected among all K."

    def without_targets(self) -> Self:
        return replace(self, valid=torch.zeros_like(self.valid), n_targets=0)


def collate_text(shards: Shards, rows: np.ndarray, *, pad_id: int) -> TextBatch:
    text, (given, _) = shards.gather(rows)
    ids, real = padded(*text, pad_id)
    # the token at place t is foreseen from those before it, so it is a target where it was not given
    valid = real[:, 1:] & (np.arange(1, ids.shape[1]) >= given.astype(np.int64)[:, None])
    ids_in, ids_out = torch.from_numpy(ids[:, :-1].copy()), torch.from_numpy(ids[:, 1:].copy())
    return TextBatch(ids_in, ids_out, torch.from_numpy(valid), int(valid.sum()), rows)
