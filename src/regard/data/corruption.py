"""Spans of a text taken out, to be written by a decoder (Raffel et al. 2020, section 3.1.4).

    a b c d e f g h  ->  a b <0> e f g <1> </s>   and   <0> c d <1> h </s>

A sentinel stands for each span, the same one before it in the target: both together rebuild the text.
"""

import numpy as np
import torch

from regard.data.pairs import PairBatch, padded, shifted
from regard.data.shards import Shards
from regard.data.shuffle import chances
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer
from regard.text.train import sentinel

SHARE, MEAN = 0.15, 3.0
"Of the tokens that are taken out, and of the length of a span."


class Corruption:
    def __init__(self, tokenizer: Tokenizer) -> None:
        found = [tokenizer.id_of(sentinel(i)) for i in range(100)]
        self.sentinels = np.array([id for id in found if id is not None], dtype=np.int64)
        if not len(self.sentinels) or tokenizer.eos_id is None or tokenizer.pad_id is None:
            raise UserError(
                f"the vocabulary has no {sentinel(0)}", "take a model that was made to write spans, as T5 is"
            )
        self.end, self.pad_id = tokenizer.eos_id, tokenizer.pad_id

    def __call__(self, shards: Shards, rows: np.ndarray, *, key: tuple[int, ...]) -> PairBatch:
        """What is taken out is a function of `key` and of each row for itself."""
        ids, lengths = shards.gather(rows)[0]
        draws = [chances((*key, n), rows, int(lengths.max())) for n in range(2)]
        texts = np.split(ids.astype(np.int64), np.cumsum(lengths)[:-1])
        pairs = [self.split(text, gone, kept) for text, gone, kept in zip(texts, *draws, strict=True)]
        (src, src_valid), (tgt, tgt_valid) = (
            padded(np.concatenate(side), np.array([len(row) for row in side]), self.pad_id)
            for side in zip(*pairs, strict=True)
        )
        return PairBatch(
            src=torch.from_numpy(src),
            src_valid=None if src_valid.all() else torch.from_numpy(src_valid),
            tgt_in=torch.from_numpy(shifted(tgt, tgt_valid, self.pad_id, self.pad_id)),
            tgt_out=torch.from_numpy(tgt),
            tgt_valid=torch.from_numpy(tgt_valid),
            n_targets=int(tgt_valid.sum()),
            rows=rows,
        )

    def split(self, ids: np.ndarray, gone: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A text of at least two tokens as what is read and what is to be written."""
        taken = spans(len(ids), gone, kept, most=len(self.sentinels))
        return self._marked(ids, ~taken), self._marked(ids, taken)

    def _marked(self, ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """The wanted tokens, a sentinel in the place of each stretch of the others, and the end."""
        begins = ~wanted & np.concatenate([[True], wanted[:-1]])
        numbers = np.cumsum(begins) - 1
        marked = np.where(begins, self.sentinels[np.maximum(numbers, 0)], ids)
        return np.append(marked[wanted | begins], self.end)


def spans(n: int, gone: np.ndarray, kept: np.ndarray, *, most: int) -> np.ndarray:
    """(n) True where a token is taken out: what stays and what goes take turns, the first stays."""
    n_gone = min(max(round(n * SHARE), 1), n - 1)
    count = min(max(round(n_gone / MEAN), 1), n_gone, n - n_gone, most)
    turns = np.stack([_parts(n - n_gone, count, kept), _parts(n_gone, count, gone)], axis=1)
    return np.repeat(np.tile([False, True], count), turns.ravel())


def _parts(total: int, count: int, draws: np.ndarray) -> np.ndarray:
    """`total` in `count` parts of at least 1, all ways alike."""
    cuts = np.sort(np.argsort(draws[: total - 1])[: count - 1]) + 1
    return np.diff([0, *cuts, total])
