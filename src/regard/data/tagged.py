"""Words with a tag each: what a tagger learns from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Row
from regard.data.examples import Encoded, OfOneTokenizer
from regard.data.pairs import padded
from regard.data.shards import Shards
from regard.data.windows import IGNORED, Window, labels_of, offsets_of, windows_of
from regard.data.words import first_tokens, joined
from regard.errors import QUOTED, UserError, cut
from regard.text.tokenizer import Tokenizer


def tags_of(row: Row) -> list[str]:
    if len(row) != 2:
        hint = "name that of the words and that of the tags, or give a .conll file: a word and its tag a line"
        raise UserError(f"a row has {len(row)} columns", hint)
    return row[1].split()


def words_and_tags(row: Row) -> tuple[list[str], list[str]]:
    """A row is its words and its tags, each in one field with a space between them."""
    words, tags = row[0].split(), tags_of(row)
    if len(words) != len(tags):
        raise UserError(f"there are {len(words)} words and {len(tags)} tags", "give each word one tag")
    return words, tags


def word_windows(tokenizer: Tokenizer, words: Sequence[str], max_len: int) -> tuple[list[Window], list[int | None]]:
    """The windows of a sentence, and for each word the token at which it is read."""
    text, places = joined(words)
    windows = windows_of(tokenizer, text, max_len=max_len)
    return windows, first_tokens(text, places, offsets_of(windows))


@dataclass(frozen=True)
class Tagged(OfOneTokenizer):
    """Sentences, an example for each window of one. Columns: ids; the number of each one's tag plus one, 0 for none."""

    tokenizer: Tokenizer
    labels: tuple[str, ...]
    max_len: int

    @property
    def limits(self) -> tuple[int, ...]:
        return self.tokenizer.vocab_size, len(self.labels) + 1

    @property
    def rules(self) -> Mapping[str, object]:
        return {"max_len": self.max_len, "labels": list(self.labels)}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        for row in rows:
            words, tags = words_and_tags(row)
            if not words:
                yield Encoded([], is_empty=True)
                continue
            windows, tokens = word_windows(self.tokenizer, words, self.max_len)
            marks = labels_of(windows, tokens, [self._number(tag) for tag in tags])
            examples = [(window.ids, [mark + 1 if mark != IGNORED else 0 for mark in each])
                        for window, each in zip(windows, marks, strict=True)]  # fmt: skip
            yield Encoded([example for example in examples if any(example[1])])

    def _number(self, tag: str) -> int:
        if tag not in self._numbers:
            known = ", ".join(self.labels[:20])
            raise UserError(f"a word has the tag '{cut(tag, QUOTED)}'", f"tags of the training data are {known}")
        return self._numbers[tag]


@dataclass
class TaggedBatch:
    ids: Tensor  # (B, T)
    valid: Tensor | None  # (B, T)
    at: Tensor  # (B, T)
    "True for the tokens at which a word is read."
    targets: Tensor  # (N)
    "The numbers of their tags."
    n_targets: int
    rows: np.ndarray
    segments: None = None

    def without_targets(self) -> Self:
        return replace(self, at=torch.zeros_like(self.at), targets=self.targets[:0], n_targets=0)


def collate_tagged(shards: Shards, rows: np.ndarray, *, pad_id: int) -> TaggedBatch:
    text, marked = shards.gather(rows)
    ids, valid = padded(*text, pad_id)
    marks, _ = padded(*marked, 0)  # (B, T)
    return TaggedBatch(
        torch.from_numpy(ids),
        None if valid.all() else torch.from_numpy(valid),
        torch.from_numpy(marks > 0),
        torch.from_numpy(marks[marks > 0] - 1),
        int((marks > 0).sum()),
        rows,
    )
