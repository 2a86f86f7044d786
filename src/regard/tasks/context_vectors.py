"""A vector for each word where it stands: the same word in another sentence has another one."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import torch

from regard.data.vectors import Vectors
from regard.data.words import Offsets
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.models.elmo import Elmo
from regard.tasks.batching import batches, check_finite, padded
from regard.tasks.word_vectors import PlacedVector
from regard.text.tokenizer import Encoding, Tokenizer

BATCH_TOKENS = 2048


class ContextVectors:
    """`embed(texts)` has a row a text, the mean of its words; `embed.in_place(texts)` a vector for each word."""

    def __init__(self, model: Elmo, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer, self.width = model, tokenizer, model.config.d_model

    def __call__(self, texts: Sequence[str], *, first: int = 1, heard: Callable[[int], None] | None = None) -> Vectors:
        """`first` is the number of the first text, for errors; `heard` is told how many are done."""
        if isinstance(texts, str):
            raise UserError("one text was given where a list is expected", "write embed([text])")
        rows = self._read(texts, first - 1, heard)[1]
        found = np.stack([row.mean(0) if len(row) else np.zeros(self.width, np.float32) for row in rows])
        check_finite(found, first)
        return found.astype(np.float32)

    def in_place(self, texts: Sequence[str]) -> Iterator[list[PlacedVector]]:
        encodings, rows = self._read(texts)
        for text, encoding, row in zip(texts, encodings, rows, strict=True):
            pieces = zip(self.tokenizer.word_numbers(text), encoding.offsets, row, strict=True)
            yield [_word(text, *zip(*each, strict=True)) for _, each in groupby(pieces, key=itemgetter(0))]

    @torch.inference_mode()
    def _read(
        self, texts: Sequence[str], done: int = 0, heard: Callable[[int], None] | None = None
    ) -> tuple[list[Encoding], list[Vectors]]:
        """Of each text its tokens and their vectors (T, width), as if it were alone."""
        encodings = self.tokenizer.encode_batch(list(texts), special=False)
        before, after = ([id] if id is not None else [] for id in (self.tokenizer.bos_id, self.tokenizer.eos_id))
        rows = [[*before, *encoding.ids, *after] for encoding in encodings]
        found: list[Vectors] = [np.zeros((0, self.width), np.float32)] * len(rows)
        for batch in batches([len(row) for row in rows], BATCH_TOKENS):
            ids, valid = padded([rows[i] for i in batch], self.model.config.pad_id or 0, self.model.device)
            vectors = self.model.vectors(ids, valid).float().cpu().numpy()  # (B, T, D)
            for i, row in zip(batch, vectors, strict=True):
                found[i] = row[len(before) : len(before) + len(encodings[i].ids)]
            done += len(batch)
            if heard:
                heard(done)
        return encodings, found

    def summary(self) -> Summary:
        return summarise(self.model)


def _word(text: str, _: object, offsets: Offsets, vectors: Sequence[Vectors]) -> PlacedVector:
    """One word, with the mean of its pieces' vectors where the vocabulary has several for it."""
    start, end = offsets[0][0], offsets[-1][1]
    return PlacedVector(text[start:end], start, end, np.mean(vectors, axis=0, dtype=np.float32))
