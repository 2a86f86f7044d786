"""Two texts as BERT reads them, [CLS] A [SEP] B [SEP], with words hidden in both."""

from dataclasses import replace

import numpy as np
import torch

from regard.data.chunks import halves
from regard.data.masked import MaskedBatch, Masking
from regard.data.pairs import padded
from regard.data.shards import Shards
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer

AROUND = 3
"Tokens that stand around two texts."


class SentencePairs:
    def __init__(self, tokenizer: Tokenizer, *, whole_words: bool = False) -> None:
        if tokenizer.cls_id is None or tokenizer.sep_id is None:
            raise UserError("the vocabulary has no [CLS] and [SEP]", "take one that is made for BERT")
        self.cls, self.sep = [tokenizer.cls_id], [tokenizer.sep_id]
        self.masking = Masking(tokenizer, whole_words=whole_words)

    def __call__(self, shards: Shards, rows: np.ndarray, *, key: tuple[int, ...]) -> MaskedBatch:
        """Of `Chunks`; all that is drawn is a function of `key` and of each row for itself."""
        pairs, apart = halves(shards, rows, key)
        ids = [np.concatenate([self.cls, first, self.sep, second, self.sep]) for first, second in pairs]
        widths = np.array([len(row) for row in ids])
        table, valid = padded(np.concatenate(ids), widths, self.masking.pad_id)  # (B, T)
        begins = np.array([len(first) + 2 for first, _ in pairs])
        segments = (np.arange(table.shape[1]) >= begins[:, None]) & valid
        batch = self.masking.hide(table, valid, rows, key)
        return replace(
            batch, segments=torch.from_numpy(segments.astype(np.int64)), apart=torch.from_numpy(apart.astype(np.int64))
        )
