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
    segments: Tensor | None = None  # (B, T)
    "0 in the first text, 1 in the second, where there are two."
    apart: Tensor | None = None  # (B)
    "1 where the second text does not follow the first, else 0; so BERT counts them."
    original: Tensor | None = None  # (B, T)
    "The ids before anything was hidden."
    draws: Tensor | None = None  # (N)
    "A number from 0 to 1 for each hidden token, by which a generator chooses what to put there."

    def without_targets(self) -> Self:
        return replace(
            self,
            at=torch.zeros_like(self.at),
            targets=self.targets[:0],
            n_targets=0,
            draws=None if self.draws is None else self.draws[:0],
        )


class Masking:
    """What the vocabulary says: which tokens may be hidden, and by what."""

    def __init__(self, tokenizer: Tokenizer, *, whole_words: bool = False) -> None:
        if tokenizer.mask_id is None or tokenizer.pad_id is None:
            raise UserError("the vocabulary has no mask token", "take a model that was made to fill masks, as BERT is")
        self.mask_id, self.pad_id = tokenizer.mask_id, tokenizer.pad_id
        special = [tokenizer.is_silent(id) for id in range(tokenizer.vocab_size)]
        self.words = np.flatnonzero(~np.array(special))
        self.is_word = ~np.array(special)  # (V)
        self.goes_on = _goes_on(tokenizer) & self.is_word if whole_words else None  # (V)

    def __call__(self, shards: Shards, rows: np.ndarray, *, key: tuple[int, ...], share: float = SHARE) -> MaskedBatch:
        """What is hidden is a function of `key` and the row, not of the rows beside it."""
        return self.hide(*padded(*shards.gather(rows)[0], self.pad_id), rows, key, share)

    def hide(
        self, ids: np.ndarray, valid: np.ndarray, rows: np.ndarray, key: tuple[int, ...], share: float = SHARE
    ) -> MaskedBatch:
        """Ids (B, T), of which `valid` are there."""
        which, how, other, draws = (chances((*key, n), rows, ids.shape[1]) for n in range(4))
        words = valid & self.is_word[ids]
        which[~words] = 2.0
        if self.goes_on is not None:  # a word's first piece decides for all of them
            firsts = np.where(self.goes_on[ids], 0, np.arange(ids.shape[1]))
            which = np.take_along_axis(which, np.maximum.accumulate(firsts, axis=1), axis=1)
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
            original=torch.from_numpy(ids),
            draws=torch.from_numpy(draws[at]),
        )


def around(shards: Shards, rows: np.ndarray, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Texts that were kept bare, between [CLS] and [SEP]: ids (B, T), and which of them are there."""
    ids, lengths = shards.gather(rows)[0]
    ends = np.cumsum(lengths)
    both = np.array([tokenizer.cls_id, tokenizer.sep_id], dtype=ids.dtype)
    whole = np.insert(ids, np.stack([ends - lengths, ends], axis=1).ravel(), np.tile(both, len(rows)))
    return padded(whole, lengths + 2, tokenizer.pad_id or 0)


def _goes_on(tokenizer: Tokenizer) -> np.ndarray:
    """(V) which pieces belong to the word before them: ##ing of a WordPiece; letters without a space, of others."""
    tokens = [tokenizer.token_of(id) if not tokenizer.is_silent(id) else "" for id in range(tokenizer.vocab_size)]
    if any(token.startswith("##") for token in tokens):
        return np.array([token.startswith("##") for token in tokens])
    return np.array([token[:1].isalnum() and token[0] != "Ġ" for token in tokens])  # which is a letter too
