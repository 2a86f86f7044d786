"""Words hidden for a model to find (Devlin et al. 2018, section 3.1): new ones every time a text comes round."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.data.pairs import padded
from regard.data.shards import Shards
from regard.data.shuffle import chances
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer

SHARE, HIDDEN, WRONG = 0.15, 0.8, 0.1
"Of the tokens a model has to find, and what it sees in their place: the mask, any token, or (else) the right one."


@dataclass
class MaskedBatch:
    ids: Tensor  # (B, T)
    valid: Tensor | None  # (B, T)
    at: Tensor  # (B, T)
    "True where the token is to be found."
    targets: Tensor  # (N)
    "The tokens that stood there."
    n_targets: int
    rows: np.ndarray

    def without_targets(self) -> Self:
        return replace(self, at=torch.zeros_like(self.at), targets=self.targets[:0], n_targets=0)


class Masking:
    """What the vocabulary says: which tokens may be hidden, and by what."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.mask_id is None or tokenizer.pad_id is None:
            raise UserError("the vocabulary has no mask token", "take a model that was made to fill masks, as BERT is")
        self.mask_id, self.pad_id = tokenizer.mask_id, tokenizer.pad_id
        special = [tokenizer.is_silent(id) for id in range(tokenizer.vocab_size)]
        self.words = np.flatnonzero(~np.array(special))
        self.is_word = ~np.array(special)  # (V)

    def __call__(self, shards: Shards, rows: np.ndarray, *, key: tuple[int, ...], share: float = SHARE) -> MaskedBatch:
        """What is hidden is a function of `key` and the row, not of the rows beside it."""
        ids, valid = padded(*shards.gather(rows)[0], self.pad_id)  # (B, T)
        which, how, other = (chances((*key, n), rows, ids.shape[1]) for n in range(3))
        words = valid & self.is_word[ids]
        which[~words] = 2.0
        # at least one in each text, so that a short one is not read in vain
        at = words & ((which < share) | (which == which.min(axis=1, keepdims=True)))
        shown = np.where(at & (how < HIDDEN), self.mask_id, ids)
        wrong = at & (how >= HIDDEN) & (how < HIDDEN + WRONG)
        shown[wrong] = self.words[(other[wrong] * len(self.words)).astype(np.int64)]
        return MaskedBatch(
            torch.from_numpy(shown),
            None if valid.all() else torch.from_numpy(valid),
            torch.from_numpy(at),
            torch.from_numpy(ids[at]),
            int(at.sum()),
            rows,
        )
