"""Questions with a text that answers them and the place of the answer: what an answerer learns from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Row
from regard.data.examples import Encoded, OfOneTokenizer
from regard.data.inputs import second_text
from regard.data.labelled import text_tensors
from regard.data.shards import Shards
from regard.data.windows import Window, span_of, windows_of
from regard.errors import QUOTED, UserError, cut
from regard.text.tokenizer import Tokenizer

MEND = "copy it from the context as it is, or leave it empty where the context does not say"


def answer_place(row: Row) -> tuple[int, int]:
    """The characters of the answer in the context, or (0, 0) where there is none: from a row of question, context,
    answer, and perhaps where it starts."""
    context, answer = row[1], row[2]
    if not answer:
        return 0, 0
    given = row[3].strip() if len(row) > 3 else ""
    if given and not given.isdecimal():
        raise UserError(f"the answer starts at '{cut(given, QUOTED)}'", "expected a number of characters")
    start = int(given) if given else context.find(answer)
    if start < 0 or context[start : start + len(answer)] != answer:
        where = f"at character {start} of" if given else "in"
        raise UserError(f"the answer '{cut(answer, QUOTED)}' does not stand {where} the context", MEND)
    return start, start + len(answer)


@dataclass(frozen=True)
class Answered(OfOneTokenizer):
    """An example for each window of a context.

    Columns: ids; where the second text begins; first and last place of the answer, 0 and 0 where it is not in this
    window; first place of the context and the one behind its last.
    """

    tokenizer: Tokenizer
    max_len: int

    @property
    def limits(self) -> tuple[int, ...]:
        places = self.max_len + 1
        return self.tokenizer.vocab_size, places, places, places

    @property
    def rules(self) -> Mapping[str, object]:
        return {"max_len": self.max_len}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        if len(rows[0]) < 3:
            hint = "name those of the question, the context, the answer and, if known, its start with data.columns"
            raise UserError(f"a row has {len(rows[0])} columns", hint)
        for row in rows:
            if not row[0].strip() or not row[1].strip():
                yield Encoded([], is_empty=True)
                continue
            place = answer_place(row)
            windows = windows_of(self.tokenizer, row[1], row[0], max_len=self.max_len)
            yield Encoded([self._example(window, place) for window in windows])

    def _example(self, window: Window, place: tuple[int, int]) -> list[Sequence[int]]:
        span = span_of(window, *place) if place != (0, 0) else (0, 0)
        return [window.ids, [second_text(window.segments)], span, [window.text_ids.start, window.text_ids.stop]]


@dataclass
class AnswerBatch:
    ids: Tensor  # (B, T)
    valid: Tensor | None  # (B, T)
    segments: Tensor | None  # (B, T)
    open: Tensor  # (B, T)
    "Where an answer may be: in the context, or at the first token, which stands for none."
    spans: Tensor  # (B, 2)
    "First and last token of the answer."
    weights: Tensor  # (B)
    n_targets: int
    rows: np.ndarray

    def without_targets(self) -> Self:
        return replace(self, weights=torch.zeros_like(self.weights), n_targets=0)


def collate_answers(shards: Shards, rows: np.ndarray, *, pad_id: int) -> AnswerBatch:
    text, (starts, _), (spans, _), (context, _) = shards.gather(rows)
    ids, valid, segments = text_tensors(text, starts, pad_id)
    first, behind = context.astype(np.int64).reshape(-1, 2, 1).transpose(1, 0, 2)  # (B, 1) each
    places = np.arange(ids.size(1))
    is_open = torch.from_numpy(((places >= first) & (places < behind)) | (places == 0))
    target = torch.from_numpy(spans.astype(np.int64).reshape(-1, 2))
    return AnswerBatch(ids, valid, segments, is_open, target, torch.ones(len(rows)), len(rows), rows)
