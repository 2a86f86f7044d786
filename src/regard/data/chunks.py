"""Documents as chunks of whole sentences, each about as long as a model reads: what encoders are pre-trained on.

A chunk remembers where its sentences begin and which document it is of. So two texts that follow each other, or do not,
are cut out of chunks anew every time they come round (Devlin et al. 2018, section 3.1), in the order of the document.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.config import require
from regard.data.corpus import Row
from regard.data.examples import Encoded, OfOneTokenizer
from regard.data.shards import Shards
from regard.data.shuffle import chances
from regard.errors import UserError
from regard.text.sentences import split_sentences
from regard.text.tokenizer import Tokenizer

N_MARKS = 1 << 16
TRIES = 2
"So many chunks are looked at for one of another document; in a corpus of a few documents all may be of the same."


@dataclass(frozen=True)
class Chunks(OfOneTokenizer):
    """A row is a document. Columns: ids of at most `room` tokens; where sentences begin but the first; the document."""

    tokenizer: Tokenizer
    room: int

    def __post_init__(self) -> None:
        lacking = 2 - self.room
        require(lacking <= 0, f"data.max_len leaves {max(self.room, 0)} tokens for a text", f"raise it by {lacking}")

    @property
    def limits(self) -> tuple[int, ...]:
        return self.tokenizer.vocab_size, self.room + 1, N_MARKS

    @property
    def rules(self) -> Mapping[str, object]:
        return {"chunks": self.room}

    def __call__(self, rows: Sequence[Row]) -> Iterator[Encoded]:
        if len(rows[0]) != 1:
            raise UserError(f"a row has {len(rows[0])} columns", "name that of the text")
        for (text,) in rows:
            sentences = self.tokenizer.encode_ids([*map(str.strip, split_sentences(text))], special=False)
            mark = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=2).digest())
            chunks = [(*chunk, [mark]) for chunk in self._chunks(sentences) if len(chunk[0]) > 1]
            yield Encoded(chunks, is_empty=not chunks)

    def _chunks(self, sentences: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[int]]]:
        """As many sentences as there is room for; one that has no room by itself is cut."""
        ids: list[int] = []
        starts: list[int] = []
        for sentence in sentences:
            for at in range(0, len(sentence), self.room):
                piece = sentence[at : at + self.room]
                if len(ids) + len(piece) > self.room:
                    yield ids, starts[1:]
                    ids, starts = [], []
                starts.append(len(ids))
                ids.extend(piece)
        yield ids, starts[1:]


Halves = list[tuple[np.ndarray, np.ndarray]]
"Of each row: the first text and the second."


def halves(shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> tuple[Halves, np.ndarray]:
    """Two texts a row, and whether the second is from elsewhere: a function of `key` and the row, half and half.

    A chunk is cut between two of its sentences, one that is a single sentence anywhere. From elsewhere is the second
    half of a chunk of another document. Whichever is taken is no longer than the other: else its length would tell
    where it is from.
    """
    draws = chances((*key, 7), rows, 2 + TRIES)
    apart = draws[:, 0] < 0.5
    others = (rows[:, None] + 1 + (draws[:, 2:] * (len(shards) - 1)).astype(np.int64)) % len(shards)  # never itself
    own, *found = (_texts(shards, some, key) for some in (rows, *others.T))
    pairs: Halves = []
    for i, (first, second, mark) in enumerate(own):
        other = next((some[i] for some in found if some[i][2] != mark), found[0][i])[1]
        taken = other if apart[i] and len(shards) > 1 else second
        pairs.append((first, taken[: min(len(second), len(other))]))
    return pairs, apart & (len(shards) > 1)


def _texts(shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Each chunk as its two halves, and the mark of its document."""
    (ids, lengths), (starts, counts), (marks, _) = shards.gather(rows)
    draws = chances((*key, 8), rows, 1)[:, 0]
    chunks, cuts = np.split(ids, np.cumsum(lengths)[:-1]), np.split(starts, np.cumsum(counts)[:-1])
    found = []
    for chunk, cut, draw, mark in zip(chunks, cuts, draws, marks, strict=True):
        at = int(cut[int(draw * len(cut))]) if len(cut) else 1 + int(draw * (len(chunk) - 1))
        found.append((chunk[:at], chunk[at:], int(mark)))
    return found
