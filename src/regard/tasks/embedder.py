"""One vector per text: texts that mean the same have vectors that point the same way."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import require
from regard.data.inputs import InputSettings, inputs_of
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.models.bert import Bert
from regard.tasks.batching import batches, check_finite, padded
from regard.tasks.pooling import pool
from regard.tasks.sentence_settings import SentenceSettings
from regard.text.flags import lowered
from regard.text.tokenizer import Tokenizer

BATCH_TOKENS = 1024
"Tokens, with padding, that go through the model at once: more no longer fit into the caches."


class Embedder:
    """`embed(["a text", "another"])` gives a float32 array with one row a text."""

    def __init__(self, model: Bert, tokenizer: Tokenizer, settings: SentenceSettings) -> None:
        self.model = model
        self.tokenizer = lowered(tokenizer) if settings.lowercase else tokenizer
        self.settings = settings
        self.max_len = min(settings.max_len or model.config.max_len, model.config.max_len)
        around = len(tokenizer.encode("").ids)
        require(
            around <= self.max_len,
            f"texts of at most {self.max_len} tokens have no room for the {around} that stand around each",
            "see max_seq_length in sentence_bert_config.json and model_max_length in tokenizer_config.json",
        )
        self.n_cut = 0
        "Texts so far that were too long to be read whole."
        full = model.config.d_model * len(settings.modes)
        self.width = min(settings.width or full, full)
        self._n_prompt = 0 if settings.include_prompt else self._prompt_length()

    def _prompt_length(self) -> int:
        """Tokens of the prompt with what stands before it, not with what would end it."""
        if not self.settings.prompt:
            return 0
        ids = self._cut(self.settings.prompt, self.tokenizer.encode(self.settings.prompt).ids)
        special = {self.tokenizer.id_of(token) for token in self.tokenizer.special.values()}
        return len(ids) - (ids[-1] in special)

    @torch.inference_mode()
    def __call__(
        self, texts: Sequence[str], *, first: int = 1, heard: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        """`first` is the number of the first text, for whoever gives them in portions and wants errors to count on.

        `heard` is told meanwhile how many are done, those before the first included.
        """
        if isinstance(texts, str):
            raise UserError("one text was given where a list is expected", "write embed([text])")
        texts = [self.settings.prompt + text for text in texts]
        rows = [self._cut(text, ids) for text, ids in zip(texts, self.tokenizer.encode_ids(texts), strict=True)]
        vectors = np.zeros((len(rows), self.width), dtype=np.float32)
        done = first - 1
        for batch in batches([len(row) for row in rows], BATCH_TOKENS):
            vectors[batch] = self._run([rows[i] for i in batch])
            done += len(batch)
            if heard:
                heard(done)
        check_finite(vectors, first)
        return vectors

    def _cut(self, text: str, ids: list[int]) -> list[int]:
        """Too long: keep the beginning or the end, and all that stands around a text."""
        if len(ids) <= self.max_len:
            return ids
        self.n_cut += 1
        return inputs_of([(text,)], self.tokenizer, InputSettings(self.max_len, self.settings.cut_left))[0].ids

    def _run(self, rows: list[list[int]]) -> NDArray[np.float32]:
        ids, valid = padded(rows, 0, self.model.device)
        hidden = self.model.encoder(ids, valid)
        kept = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
        kept[:, : self._n_prompt] = False
        pooled = pool(hidden, kept, self.settings.modes)
        if self.settings.normalise:
            pooled = torch.nn.functional.normalize(pooled, dim=-1)
        return pooled[:, : self.width].float().cpu().numpy()

    def summary(self) -> Summary:
        return summarise(self.model)
