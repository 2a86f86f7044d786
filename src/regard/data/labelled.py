"""Texts, or pairs of texts, with a label or a number each: what a classifier learns from."""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Row
from regard.data.examples import Encoded, OfOneTokenizer
from regard.data.inputs import InputSettings, inputs_of, second_text
from regard.data.pairs import padded
from regard.data.shards import Shards
from regard.errors import QUOTED, UserError, cut
from regard.text.tokenizer import Tokenizer

HALF = 1 << 16
"A number is kept as the two halves of its 32 bits."


@dataclass(frozen=True)
class Labelled(OfOneTokenizer):
    """A row is one or two texts, and then its label, one of `labels`; without labels it is a number.

    Columns: ids; where the second text begins; the label.
    """

    tokenizer: Tokenizer
    labels: tuple[str, ...]
    max_len: int
    names: Mapping[str, str] = field(default_factory=dict)
    "Of labels that the file calls otherwise."

    @property
    def limits(self) -> tuple[int, ...]:
        return self.tokenizer.vocab_size, self.max_len + 1, len(self.labels) or HALF

    @property
    def rules(self) -> Mapping[str, object]:
        return {"max_len": self.max_len, "labels": list(self.labels), "names": dict(self.names)}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        if len(rows[0]) not in (2, 3):
            hint = "name the column of the text (or both), then that of the label, with data.columns"
            raise UserError(f"a row has {len(rows[0])} columns; expected a text, perhaps a second one, a label", hint)
        inputs = inputs_of([row[:-1] for row in rows], self.tokenizer, InputSettings(self.max_len))
        around = len(inputs_of([("",) * (len(rows[0]) - 1)], self.tokenizer, InputSettings())[0].ids)
        for row, found in zip(rows, inputs, strict=True):
            if not all(map(str.strip, row[:-1])):
                yield Encoded([], is_empty=True)
            else:
                if found.n_cut and self.max_len - around < len(row) - 1:
                    what = f"of {self.max_len} tokens {around} stand around each text, and none are left for it"
                    raise UserError(what, "raise data.max_len")
                example = [found.ids, [second_text(found.segments)], self._target(row[-1].strip())]
                yield Encoded([example], n_too_many=found.n_cut and len(found.ids) + found.n_cut)

    def _target(self, label: str) -> list[int]:
        if not label:
            raise UserError("there is no label", "write one, or take the row out")
        label = self.names.get(label, label)
        if self.labels:
            if label not in self._numbers:
                known = ", ".join(self.labels[:20])
                raise UserError(f"the label is '{cut(label, QUOTED)}'", f"labels of the training data are {known}")
            return [self._numbers[label]]
        try:
            number = float(label)
            if math.isfinite(number):
                return list(struct.unpack("<2H", struct.pack("<f", number)))
        except (ValueError, OverflowError):
            pass
        raise UserError(f"'{cut(label, QUOTED)}' is not a number that can be learnt", "expected one such as 2.5")


@dataclass
class LabelledBatch:
    ids: Tensor  # (B, T)
    valid: Tensor | None  # (B, T)
    "None where nothing is padded."
    segments: Tensor | None  # (B, T)
    "None where there is one text only."
    labels: Tensor  # (B) class numbers, or float targets
    weights: Tensor  # (B) 0 for a row that does not count
    n_targets: int
    rows: np.ndarray

    def without_targets(self) -> Self:
        return replace(self, weights=torch.zeros_like(self.weights), n_targets=0)


def collate_labelled(shards: Shards, rows: np.ndarray, *, pad_id: int, class_weights: Tensor | None) -> LabelledBatch:
    """`class_weights` (labels) say how much a row of each label counts; None where the targets are numbers."""
    text, (starts, _), (found, _) = shards.gather(rows)
    ids, valid, segments = text_tensors(text, starts, pad_id)
    if class_weights is None:
        labels = torch.from_numpy(found.astype("<u2").view("<f4").astype(np.float32))
        weights = torch.ones(len(rows))
    else:
        labels = torch.from_numpy(found.astype(np.int64))
        weights = class_weights[labels]
    return LabelledBatch(ids, valid, segments, labels, weights, len(rows), rows)


def text_tensors(
    text: tuple[np.ndarray, np.ndarray], starts: np.ndarray, pad_id: int
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Ids, which of them are real, and their segments, from a column of ids and where the second text begins."""
    ids, valid = padded(*text, pad_id)
    segments = None
    if (starts < text[1]).any():
        second = np.arange(ids.shape[1]) >= starts.astype(np.int64)[:, None]
        segments = torch.from_numpy((second & valid).astype(np.int64))  # (B, T)
    return torch.from_numpy(ids), None if valid.all() else torch.from_numpy(valid), segments
