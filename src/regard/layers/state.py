"""What a decoder remembers between two tokens.

Greedy search, sampling, beam search, speculation and continuous batching all stand on one contract,
`DecodingState`, which the key/value cache here and the recurrent state (recurrent.py) both keep. Storage is
allocated once and filled with zeros: a NaN left in a slot that nobody may read would still leak through 0 · NaN.
"""

from typing import Any, Protocol, Self

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
        """Put the only row of `other` into slot `row`; the one behind the last is made.

        Where `other` has room for a longer text than we have, all rows get it.
        """

    def free(self, row: int) -> None:
        """Empty slot `row`."""


class KeyValueState:
    """Keys and values of every layer, left-aligned: the token at position p of a row is in slot p."""

    def __init__(
        self, shape: tuple[int, int, int, int, int], *, dtype: torch.dtype, device: torch.device, whole: int = 1
    ) -> None:
        """`shape` is (layers, rows, key/value heads, longest text, width of a head); `whole`, see `open`."""
        self._whole = whole
        shape = (*shape[:3], self._rounded(shape[3]), shape[4])
        self._store = torch.zeros((2, *shape), dtype=dtype, device=device)  # (2, L, B or more, G, S, K)
        self.lengths = torch.zeros(shape[1], dtype=torch.long, device=device)
        self.memory: list[tuple[Tensor, Tensor]] = []  # cross-attention: projected once, (B, G, S, K) per layer,
        # or (B / W, G, S, K) where every W rows, the hypotheses of one sentence, look at the same
        self.memory_valid: Tensor | None = None  # (B, S)
        self.described: tuple[object, Any] | None = None  # `memory`, and the same as the compiled library reads it
        self._equal: int | None = 0  # the length of every row, while they agree: slices instead of scatters
        self._writers: Tensor | None = self.lengths.new_zeros(shape[1], shape[3])  # (B, S), see `_first_moved`
        self._held: tuple[Tensor, ...] = ()  # keys of every layer, then values; (B, G, S, K) as far as they are in use
        self._fresh: tuple[Tensor, ...] = ()  # of these the part that the new tokens fill, while rows agree
        self._start = 0
        self._slots: Tensor | None = None
        self._real: Tensor | None = None
        self._steps: Tensor | int = 0
        self._equal_next: int | None = 0
        self.places = self.lengths.new_zeros(1, 0)  # (B or 1, T) where the new tokens go; -1 is padding
        self.end = 0

    def __getstate__(self) -> dict[str, Any]:
        """A copy finds out for itself where its memory is."""
        return self.__dict__ | {"described": None}

    @property
    def keys_values(self) -> Tensor:
        """(2, L, B, G, S, K). Rows that left keep their place in memory, for those to come; all of it is zero."""
        return self._store[:, :, : len(self.lengths)]

    @property
    def store(self) -> Tensor:
        """(2, L, B or more, G, S, K), rows that left included: what the compiled library reads and writes."""
        return self._store

    @property
    def capacity(self) -> int:
        return self._store.size(4)

    def open(self, n_tokens: int, valid: Tensor | None = None) -> tuple[Tensor, Mask]:
        """Reserve slots for `n_tokens` new tokens a row; their positions (B or 1, T) and the mask to attend with.

        Keys are given up to a multiple of `whole`, those behind the last being closed.
        """
        if valid is not None or self._equal is None:
            return self._open_ragged(n_tokens, valid)
        start, end, self._steps = self._equal, self._equal + n_tokens, n_tokens
        self._equal_next = end
        self._reserve(end)
        self._start, self._slots = start, None
        if self._writers is not None and len(self.lengths) > 1:
            self._writers[:, start:end] = torch.arange(len(self.lengths), device=self.lengths.device)[:, None]
        self.places = positions = torch.arange(start, end, device=self.lengths.device)[None]
        if self.end > end:
            return positions, Mask(causal=True, positions=positions)
        return positions, Mask(causal=n_tokens > 1)  # one query comes after all its keys: nothing to close

    def _open_ragged(self, n_tokens: int, valid: Tensor | None) -> tuple[Tensor, Mask]:
        steps = self.lengths.new_ones(len(self.lengths), n_tokens) if valid is None else valid.long()
        positions = (self.lengths[:, None] + steps.cumsum(-1) - 1).clamp(min=0)  # (B, T)
        self._steps, self._writers, self._equal_next = steps.sum(-1), None, None
        self._reserve(int((self.lengths + self._steps).max()))
        places = self._places(positions)
        self._slots, self._real = places if valid is None else places[valid], valid
        self.places = positions if valid is None else positions.masked_fill(~valid, -1)
        return positions, Mask(causal=True, positions=positions)

    def _reserve(self, end: int) -> None:
        require_room(end, self.capacity)
        self.end, self._held = self._rounded(end), ()

    def _views(self) -> None:
        """Made when the first layer asks: the compiled library asks for none."""
        self._held = self.keys_values[..., : self.end, :].flatten(0, 1).unbind()
        if self._slots is None:
            ends = self._start + int(self._steps)
            self._fresh = self.keys_values[..., self._start : ends, :].flatten(0, 1).unbind()

    def _rounded(self, length: int) -> int:
        return -(-length // self._whole) * self._whole

    def _places(self, positions: Tensor) -> Tensor:
        """(B, T, G) where the keys of these tokens are, counted over rows, heads and slots."""
        n_rows, n_heads = len(positions), self._store.size(3)
        heads = torch.arange(n_rows * n_heads, device=positions.device).view(n_rows, 1, n_heads)
        return heads * self.capacity + positions[..., None]

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's new keys and values (B, G, T, K) and return all of them, up to the longest row."""
        n_layers = self._store.size(1)
        if not self._held:
            self._views()
        if self._slots is None:
            self._fresh[layer].copy_(k)
            self._fresh[n_layers + layer].copy_(v)
        else:
            for store, new in ((self._store[0, layer], k), (self._store[1, layer], v)):
                new = new.transpose(1, 2)  # (B, T, G, K)
                new = (new if self._real is None else new[self._real]).reshape(-1, new.size(-1))
                store.flatten(0, 2).index_copy_(0, self._slots.flatten(), new.to(store.dtype))
        return self._held[layer], self._held[n_layers + layer]

    def close(self) -> None:
        """All layers have appended: the new tokens now count."""
        self.lengths = self.lengths + self._steps
        self._equal = self._equal_next

    def reorder(self, index: Tensor) -> None:
        used, n_rows, first = self._longest(), len(index), self._first_moved(index)
        moved = (index != torch.arange(n_rows, device=index.device)).nonzero()[:, 0]
        taken = self._store[..., first:used, :].index_select(2, index[moved])
        self._enlarge(n_rows, self.capacity)
        # In place: what is beyond the slots in use is zero in every row, and memory fresh from the system is slow.
        self._store[:, :, moved, :, first:used] = taken
        self._store[:, :, n_rows : len(self.lengths), :, :used] = 0.0
        self._writers = None if self._writers is None else self._writers[index]
        self._reorder_memory(index)
        self._set_lengths(self.lengths[index])

    def _first_moved(self, index: Tensor) -> int:
        """The first slot that `reorder` changes in any row: hypotheses of one sentence soon have one beginning.

        `_writers` says of every slot which row first wrote it: a copy of the same writer's is the same.
        """
        if self._writers is None or len(index) > len(self._writers):
            return 0
        changed = (self._writers[index] != self._writers[: len(index)]).any(0).nonzero()
        return int(changed[0]) if len(changed) else self._longest()

    def _reorder_memory(self, index: Tensor) -> None:
        """Neighbours with the same memory share it, if all have as many such neighbours: so have hypotheses."""
        if self.memory:
            rows = index // self._n_shared
            owners, counts = rows.unique_consecutive(return_counts=True)
            self._take_memory(rows if bool((counts != counts[:1]).any()) else owners)

    @property
    def _n_shared(self) -> int:
        return max(1, len(self.lengths) // max(1, len(self.memory[0][0])))

    def _take_memory(self, rows: Tensor) -> None:
        """What is left gets as wide as its longest source."""
        if torch.equal(rows, torch.arange(len(self.memory[0][0]), device=rows.device)):
            return
        width: int | None = None
        if self.memory_valid is not None:
            valid = self.memory_valid[rows]
            columns = valid.any(0).nonzero()
            width = self._rounded(int(columns[-1]) + 1) if len(columns) else 0
            self.memory_valid = valid[:, :width]
        cut = [(k[:, :, :width], v[:, :, :width]) for k, v in self.memory]
        self.memory = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in cut]

    def truncate(self, lengths: Tensor) -> None:
        lengths, end, self._writers = torch.minimum(self.lengths, lengths), self._longest(), None
        start = min(lengths.tolist(), default=0)
        gone = torch.arange(start, end, device=lengths.device) >= lengths[:, None]  # (B, S)
        self.keys_values[..., start:end, :].masked_fill_(gone[:, None, :, None], 0.0)
        self._set_lengths(lengths)

    def insert(self, row: int, other: Self) -> None:
        used, self._writers = int(other.lengths[0]), None
        if self.memory:
            self._take_memory(torch.arange(len(self.lengths), device=self.lengths.device) // self._n_shared)
        self._enlarge(row + 1, other.capacity)
        if row == len(self.lengths):
            self._set_lengths(pad(self.lengths, (0, 1)))
        self.free(row)
        self._store[:, :, row, :, :used] = other.keys_values[:, :, 0, :, :used]
        self._insert_memory(row, other)
        self._set_length(row, used)

    def _enlarge(self, n_rows: int, n_tokens: int) -> None:
        """Room for so many. Rows come one at a time: there will be more, so memory is taken for half as many again."""
        old, rows, tokens = self._store, self._store.size(2), max(n_tokens, self.capacity)
        if n_rows > rows:
            rows = max(n_rows, rows + rows // 2)
        elif tokens == self.capacity:
            return
        self._store = old.new_zeros(*old.shape[:2], rows, old.size(3), tokens, old.size(5))
        self._store[:, :, : old.size(2), :, : old.size(4)] = old

    def _insert_memory(self, row: int, other: Self) -> None:
        if not other.memory:
            return
        if not self.memory:
            shape = len(self.lengths), *other.memory[0][0].shape[1:]
            self.memory = [(k.new_zeros(shape), v.new_zeros(shape)) for k, v in other.memory]
            self.memory_valid = self._whole_memory() & False
        ours = self._whole_memory() if self.memory_valid is None else self.memory_valid
        theirs = other._whole_memory() if other.memory_valid is None else other.memory_valid
        pairs = zip(self.memory, other.memory, strict=True)
        self.memory = [(put_row(k, row, new_k, 2), put_row(v, row, new_v, 2)) for (k, v), (new_k, new_v) in pairs]
        self.memory_valid = put_row(ours, row, theirs, 1)

    def _whole_memory(self) -> Tensor:
        return torch.ones_like(self.memory[0][0][:, 0, :, 0], dtype=torch.bool)  # (B, S), all of it open

    def free(self, row: int) -> None:
        self._writers = None
        self._store[:, :, row, :, : self._longest()] = 0.0
        self._set_length(row, 0)

    def _longest(self) -> int:
        return max(self.lengths.tolist(), default=0)

    def _set_length(self, row: int, length: int) -> None:
        lengths = self.lengths.clone()
        lengths[row] = length
        self._set_lengths(lengths)

    def _set_lengths(self, lengths: Tensor) -> None:
        self.lengths, different = lengths, set(lengths.tolist())
        self._equal = different.pop() if len(different) == 1 else None


class Remembered:
    """Keys and values of what was read before, without their gradients (Transformer-XL, Dai et al. 2019).

    The next piece of a text looks back at them as if they were its own; all that is remembered takes part in the next
    piece, and so through every layer a token reaches further back than one piece.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """One layer's keys and values (B, G, T, K) behind those of earlier pieces (B, G, M, K)."""
        if layer in self._kept:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self._kept[layer], (k, v), strict=True))
        self._kept[layer] = k.detach(), v.detach()
        return k, v


def require_room(n_tokens: int, capacity: int) -> None:
    if n_tokens > capacity:
        raise UserError(
            f"the text grows to {n_tokens} tokens, the decoding state holds {capacity}",
            "ask for fewer new tokens, shorten the prompt, or make the state longer",
        )


def put_row(x: Tensor, row: int, new: Tensor, dim: int) -> Tensor:
    """x (B, ...) with the only row of `new` in place of its own, or behind the last.

    A longer one makes all rows longer along `dim`.
    """
    longer, more = max(0, new.size(dim) - x.size(dim)), max(0, row + 1 - len(x))
    if longer or more:
        x = pad(x, (0, 0) * (x.dim() - 1 - dim) + (0, longer) + (0, 0) * (dim - 1) + (0, more))
    x[row] = 0
    x[row].narrow(dim - 1, 0, new.size(dim)).copy_(new[0])
    return x
