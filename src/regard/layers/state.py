"""What a decoder remembers between two tokens.

Greedy search, sampling, beam search, speculation and continuous batching all stand on one contract,
`DecodingState`, which the key/value cache here and the recurrent state (recurrent.py) both keep. Storage is
allocated once and filled with zeros: a NaN left in a slot that nobody may read would still leak through 0 · NaN.
"""

from typing import Protocol, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.errors import UserError
from regard.layers.mask import Mask


class DecodingState(Protocol):
    lengths: Tensor
    "(B) tokens each row holds."

    def reorder(self, index: Tensor) -> None:
        """Row i becomes what row index[i] was; beams are chosen, and finished rows dropped, this way."""

    def truncate(self, lengths: Tensor) -> None:
        """Forget all but the first lengths[i] tokens of each row."""

    def insert(self, row: int, other: Self) -> None:
        """Put the only row of `other` into slot `row`."""

    def free(self, row: int) -> None:
        """Empty slot `row`."""


class KeyValueState:
    """Keys and values of every layer, left-aligned: the token at position p of a row is in slot p."""

    def __init__(self, shape: tuple[int, int, int, int, int], *, dtype: torch.dtype, device: torch.device) -> None:
        """`shape` is (layers, rows, key/value heads, longest text, width of a head)."""
        self.keys_values = torch.zeros((2, *shape), dtype=dtype, device=device)  # (2, L, B, G, S, K)
        self.lengths = torch.zeros(shape[1], dtype=torch.long, device=device)
        self.memory: list[tuple[Tensor, Tensor]] = []  # cross-attention: projected once, (B, G, S, K) per layer,
        # or (B / W, G, S, K) where every W rows, the hypotheses of one sentence, look at the same
        self.memory_valid: Tensor | None = None  # (B, S)
        self._equal: int | None = 0  # the length of every row, while they agree: slices instead of scatters
        self._slots: Tensor | slice = slice(0, 0)
        self._rows: Tensor | None = None
        self._valid: Tensor | None = None
        self.end = 0

    @property
    def capacity(self) -> int:
        return self.keys_values.size(4)

    def open(self, n_tokens: int, valid: Tensor | None = None) -> tuple[Tensor, Mask]:
        """Reserve slots for `n_tokens` new tokens a row; their positions (B or 1, T) and the mask to attend with."""
        if valid is None and self._equal is not None:
            start, self.end = self._equal, self._equal + n_tokens
            self._slots, self._rows, self._valid = slice(start, self.end), None, None
            positions = torch.arange(start, self.end, device=self.lengths.device)[None]
        else:
            steps = self.lengths.new_ones(len(self.lengths), n_tokens) if valid is None else valid.long()
            positions = (self.lengths[:, None] + steps.cumsum(-1) - 1).clamp(min=0)  # (B, T)
            self.end = int((self.lengths + steps.sum(-1)).max())
            self._rows, columns = steps.nonzero(as_tuple=True)
            self._slots, self._valid = positions[self._rows, columns], columns
        require_room(self.end, self.capacity)
        self._steps = n_tokens if valid is None else valid.sum(-1)
        if self._rows is None:
            return positions, Mask(causal=n_tokens > 1)  # one query comes after all its keys: nothing to close
        return positions, Mask(causal=True, positions=positions)

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's new keys and values (B, G, T, K) and return all of them, up to the longest row."""
        for store, new in ((self.keys_values[0, layer], k), (self.keys_values[1, layer], v)):
            if self._rows is None:
                store[:, :, self._slots] = new
            else:
                store[self._rows, :, self._slots] = new[self._rows, :, self._valid].to(store.dtype)
        return self.keys_values[0, layer, :, :, : self.end], self.keys_values[1, layer, :, :, : self.end]

    def close(self) -> None:
        """All layers have appended: the new tokens now count."""
        self.lengths = self.lengths + self._steps
        self._equal = self.end if self._rows is None else None

    def reorder(self, index: Tensor) -> None:
        used, more = max(self.lengths.tolist(), default=0), len(index) - len(self.lengths)
        taken = self.keys_values[:, :, index, :, :used]
        # In place: what is beyond the slots in use is zero in every row, and memory fresh from the system is slow.
        store = pad(self.keys_values, (0, 0) * 3 + (0, more)) if more > 0 else self.keys_values[:, :, : len(index)]
        store[..., :used, :] = taken
        self.keys_values = store
        self._reorder_memory(index)
        self._set_lengths(self.lengths[index])

    def _reorder_memory(self, index: Tensor) -> None:
        """Neighbours with the same memory share it, if all have as many such neighbours: so have hypotheses."""
        if not self.memory:
            return
        rows = index // self._n_shared
        owners, counts = rows.unique_consecutive(return_counts=True)
        self._take_memory(rows if bool((counts != counts[:1]).any()) else owners)

    @property
    def _n_shared(self) -> int:
        return max(1, len(self.lengths) // max(1, len(self.memory[0][0])))

    def _take_memory(self, rows: Tensor) -> None:
        if not torch.equal(rows, torch.arange(len(self.memory[0][0]), device=rows.device)):
            self.memory = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.memory]
            self.memory_valid = None if self.memory_valid is None else self.memory_valid[rows]

    def truncate(self, lengths: Tensor) -> None:
        lengths = torch.minimum(self.lengths, lengths)
        gone = torch.arange(self.capacity, device=lengths.device) >= lengths[:, None]  # (B, S)
        self.keys_values.masked_fill_(gone[:, None, :, None], 0.0)
        self._set_lengths(lengths)

    def insert(self, row: int, other: Self) -> None:
        used = int(other.lengths[0])
        require_room(used, self.capacity)
        self.free(row)
        self.keys_values[:, :, row, :, :used] = other.keys_values[:, :, 0, :, :used]
        self._insert_memory(row, other)
        self._set_length(row, used)

    def _insert_memory(self, row: int, other: Self) -> None:
        if not other.memory:
            return
        if not self.memory:
            shape = len(self.lengths), *other.memory[0][0].shape[1:]
            self.memory = [(k.new_zeros(shape), v.new_zeros(shape)) for k, v in other.memory]
            self.memory_valid = self._whole_memory() & False
        self._take_memory(torch.arange(len(self.lengths), device=self.lengths.device) // self._n_shared)
        ours = self._whole_memory() if self.memory_valid is None else self.memory_valid
        theirs = other._whole_memory() if other.memory_valid is None else other.memory_valid
        pairs = zip(self.memory, other.memory, strict=True)
        self.memory = [(put_row(k, row, new_k, 2), put_row(v, row, new_v, 2)) for (k, v), (new_k, new_v) in pairs]
        self.memory_valid = put_row(ours, row, theirs, 1)

    def _whole_memory(self) -> Tensor:
        return torch.ones_like(self.memory[0][0][:, 0, :, 0], dtype=torch.bool)  # (B, S), all of it open

    def free(self, row: int) -> None:
        self.keys_values[:, :, row] = 0.0
        self._set_length(row, 0)

    def _set_length(self, row: int, length: int) -> None:
        lengths = self.lengths.clone()
        lengths[row] = length
        self._set_lengths(lengths)

    def _set_lengths(self, lengths: Tensor) -> None:
        self.lengths, different = lengths, set(lengths.tolist())
        self._equal = different.pop() if len(different) == 1 else None


def require_room(n_tokens: int, capacity: int) -> None:
    if n_tokens > capacity:
        raise UserError(
            f"the text grows to {n_tokens} tokens, the decoding state holds {capacity}",
            "ask for fewer new tokens, shorten the prompt, or make the state longer",
        )


def put_row(x: Tensor, row: int, new: Tensor, dim: int) -> Tensor:
    """x (B, ...) with the only row of `new` in place of its own; a longer one makes all rows longer along `dim`."""
    if new.size(dim) > x.size(dim):
        x = pad(x, (0, 0) * (x.dim() - 1 - dim) + (0, new.size(dim) - x.size(dim)))
    x[row] = 0
    x[row].narrow(dim - 1, 0, new.size(dim)).copy_(new[0])
    return x
