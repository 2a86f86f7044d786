"""Who may attend to whom.

A `Mask` is a set of rules; all must hold. `dense` turns them into one boolean tensor in which True means
"may attend", so a softmax never sees a closed cell. Rules stay rules until then, because the fused kernel
has faster paths for "everything" and for "plain causal" than for any tensor.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

WHOLE = 16
"Numbers in the widest vector of a CPU."


@dataclass(eq=False)
class Mask:
    """The one builder of attention masks; `Mask()` lets every query see every key."""

    causal: bool = False
    "A query sees only keys at or before its own position."
    valid: Tensor | None = None
    "(B, S), True where the key is a real token and not padding."
    window: int | None = None
    "Local attention: at most this many steps to either side, in one dimension or on the grid."
    grid: tuple[int, int] | None = None
    "Rows and columns of image patches; with it the window is two-dimensional."
    n_global: int = 0
    "Leading tokens (class, distillation) that see all and are seen by all, whatever the window."
    positions: Tensor | None = None
    "(B, T) positions of the queries, where a decoding state holds the keys at positions 0 to S-1."
    documents: Tensor | None = None
    "(B, S) the number of each token's text, where a row holds several: none sees another."
    steady: bool = False
    "Whether attention is to be the same to the bit in any company (attention.py)."
    _added: Tensor | None = field(default=None, repr=False)
    _dense: dict[tuple[int, int], Tensor | None] = field(default_factory=dict, repr=False)

    @property
    def is_plain_causal(self) -> bool:
        others = self.valid, self.window, self.positions, self.documents
        return self.causal and all(rule is None for rule in others)

    def is_narrow(self, n_keys: int) -> bool:
        """Whether a text's own window leaves most of its keys out."""
        return self.window is not None and self.grid is None and not self.n_global and 4 * self.window < n_keys

    def dense(self, n_queries: int, n_keys: int, device: torch.device) -> Tensor | None:
        """(B or 1, 1, T, S) boolean, or None when nothing is closed; computed once for all layers."""
        if not self.causal and self.valid is None and self.window is None and self.documents is None:
            return None
        key = n_queries, n_keys
        if key not in self._dense:
            self._dense[key] = self._build(n_queries, n_keys, device)
        return self._dense[key]

    def added(self, n_queries: int, n_keys: int, like: Tensor) -> Tensor:
        """(B or 1, 1, T, S) what closes cells when it is added to their scores; keys up to a multiple of 16."""
        if self._added is None or self._added.shape[-2:] != (n_queries, -(-n_keys // WHOLE) * WHOLE):
            allowed = self.dense(n_queries, n_keys, like.device)
            low = torch.finfo(like.dtype).min
            shape = (1, 1, n_queries, n_keys) if allowed is None else allowed.shape
            self._added = (
                like.new_zeros(shape) if allowed is None else like.new_zeros(shape).masked_fill_(~allowed, low)
            )
            self._added = pad(self._added, (0, -n_keys % WHOLE), value=low)
        return self._added

    def _build(self, n_queries: int, n_keys: int, device: torch.device) -> Tensor | None:
        keys = torch.arange(n_keys, device=device)  # (S)
        if self.positions is not None:
            queries = self.positions[:, :, None]  # (B, T, 1)
        else:
            queries = torch.arange(n_keys - n_queries, n_keys, device=device)[None, :, None]  # (1, T, 1)
        rules = []
        if self.causal:
            rules.append(keys <= queries)
        if self.valid is not None:
            rules.append(self.valid[:, None, :])
        if self.documents is not None:
            rules.append(self.documents[:, -n_queries:, None] == self.documents[:, None, :])
        if self.window is not None:
            rules.append(self._near(queries, keys) | (queries < self.n_global) | (keys < self.n_global))
        allowed = rules[0]
        for rule in rules[1:]:
            allowed = allowed & rule
        return allowed[:, None].expand(-1, -1, n_queries, n_keys)  # (B, 1, T, S)

    def _near(self, queries: Tensor, keys: Tensor) -> Tensor:
        assert self.window is not None
        if self.grid is None:
            return (queries - keys).abs() <= self.window
        columns = self.grid[1]
        q, k = queries - self.n_global, keys - self.n_global
        rows_apart = (q.div(columns, rounding_mode="floor") - k.div(columns, rounding_mode="floor")).abs()
        columns_apart = (q.remainder(columns) - k.remainder(columns)).abs()
        return (rows_apart <= self.window) & (columns_apart <= self.window)


def positions_of(valid: Tensor | None, n_tokens: int, device: torch.device) -> Tensor:
    """(B or 1, T) position of every token, counted over real tokens only, so padding on either side is harmless."""
    if valid is None:
        return torch.arange(n_tokens, device=device)[None]
    return (valid.long().cumsum(-1) - 1).clamp(min=0)


def positions_in(documents: Tensor) -> Tensor:
    """(B, T) position of every token in its own text, where a row holds several, one after another."""
    places = torch.arange(documents.size(1), device=documents.device)
    begins = documents.diff(prepend=documents[:, :1] - 1, dim=1) != 0
    return places - (places * begins).cummax(1).values
