"""A vector for each word where it stands: the same word in another sentence has another one."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from regard.data.vectors import Vectors
from regard.data.words import tokens_in, words_of
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
        found = np.zeros((len(rows), self.width), np.float32)
        for i, row in enumerate(rows):
            found[i] = row.mean(0) if len(row) else 0.0
        check_finite(found, first)
        return found

    def in_place(self, texts: Sequence[str]) -> Iterator[list[PlacedVector]]:
        encodings, rows = self._read(texts)
        for text, encoding, row in zip(texts, encodings, rows, strict=True):
            words = words_of(text)
            tokens = tokens_in(text, words, encoding.offsets)
            means = [row[each].mean(0) if each else None for each in tokens]  # of a word's pieces
            yield [PlacedVector(*word, mean) for word, mean in zip(words, means, strict=True)]

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
