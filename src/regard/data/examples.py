"""How a row of text becomes examples: columns of numbers, which shards keep and batches are made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from regard.config import require
from regard.data.corpus import Row
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer

Columns = Sequence[Sequence[int]]
TooLong = Literal["drop", "cut", "error"]


@dataclass(frozen=True)
class Encoded:
    """What became of one row: no example where there is nothing to learn from, several where it is long."""

    examples: Sequence[Columns]
    is_empty: bool = False
    n_too_many: int = 0
    "Tokens of its longest side, where those are too many."


class Examples(Protocol):
    """How the rows of one task become columns of numbers."""

    @property
    def tokenizers(self) -> Sequence[Tokenizer]:
        """What the numbers of the costly columns stand for."""

    @property
    def limits(self) -> tuple[int, ...]:
        """Every number of a column is below its limit."""

    @property
    def n_costly(self) -> int:
        """So many columns, from the first on, count against the budget of a step: of texts, all that a model reads."""

    @property
    def rules(self) -> Mapping[str, object]:
        """All that decides the numbers, beside the text and the tokenizers; plain JSON."""

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        """One result a row, in order; a row that cannot be used raises a `UserError` that says why, not where."""


class OfOneTokenizer:
    """What most have in common: the first column is read, the others tell about it."""

    tokenizer: Tokenizer

    @property
    def tokenizers(self) -> Sequence[Tokenizer]:
        return [self.tokenizer]

    @property
    def n_costly(self) -> int:
        return 1


@dataclass(frozen=True)
class Texts:
    """Texts as they are, a column for each tokenizer, with the special tokens that it puts around a text."""

    tokenizers: Sequence[Tokenizer]
    max_len: int
    too_long: TooLong = "drop"

    def __post_init__(self) -> None:
        require(self.max_len >= 1, f"max_len is {self.max_len}", "expected at least 1")

    @property
    def limits(self) -> tuple[int, ...]:
        return tuple(tokenizer.vocab_size for tokenizer in self.tokenizers)

    @property
    def n_costly(self) -> int:
        return len(self.tokenizers)

    @property
    def rules(self) -> Mapping[str, object]:
        return {"max_len": self.max_len, "too_long": self.too_long}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        n = len(self.tokenizers)
        if len(rows[0]) < n:
            raise UserError(f"a row has {len(rows[0])} columns", f"expected {n}, one for each tokenizer")
        texts = list(zip(*rows, strict=True))[:n]
        columns = [tokenizer.encode_ids(each) for tokenizer, each in zip(self.tokenizers, texts, strict=True)]
        for row, *ids in zip(rows, *columns, strict=True):
            is_empty = not all(ids) or not all(map(str.strip, row[:n]))
            yield Encoded([], is_empty=True) if is_empty else self._fitted(ids)

    def _fitted(self, ids: list[list[int]]) -> Encoded:
        longest = max(map(len, ids))
        if longest <= self.max_len:
            return Encoded([ids])
        if self.too_long == "error":
            what = f"a text has {longest:,} tokens, more than {self.max_len:,}"
            raise UserError(what, 'raise max_len, or "drop" or "cut" them')
        cut = [cut_end(*pair, self.max_len) for pair in zip(self.tokenizers, ids, strict=True)]
        return Encoded([cut] if self.too_long == "cut" else [], n_too_many=longest)


def cut_end(tokenizer: Tokenizer, ids: list[int], max_len: int) -> list[int]:
    if len(ids) <= max_len:
        return ids
    has_end = ids[-1] in (tokenizer.eos_id, tokenizer.sep_id)  # else a model would never learn to stop
    return ids[: max_len - 1] + ids[-1:] if has_end else ids[:max_len]
