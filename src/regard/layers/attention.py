"""Scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2).

Two twins compute the same thing: `readable` returns the weights and reads like the paper, `fused` is
PyTorch's kernel. `attend` is the seam that every model goes through; looking inside calls `readable`
for the asked layer again, so it never slows the fast path.

One class serves self- and cross-attention: they differ only in where keys and values come from.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.dropout import Dropout
from regard.layers.linear import Linear, joined
from regard.layers.mask import WHOLE, Mask
from regard.layers.position import Rotation

SHORT = 64
"Keys up to which plain products are faster on a CPU than the kernel, which is made for long texts."

MIDDLING = 256
"Keys up to which they are when bfloat16 is learnt from, and up to which memory bears the weights of all heads."

SOME = 4
"Rows from which on products are computed as for many."


def readable(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    scale: float,
    bias: Tensor | None = None,
    dropout: Dropout | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T · scale + bias) v, and the weights. A query that may attend to nothing gets zeros."""
    k, v = (repeat_heads(x, q.size(1)) for x in (k, v))  # (B, H, S, K)
    scores = q @ k.mT * scale  # (B, H, T, S)
    if bias is not None:
        scores = scores + bias
    allowed = mask.dense(q.size(-2), k.size(-2), q.device)
    if allowed is None:
        weights = scores.softmax(-1)
    else:  # the lowest finite score, not -inf: a row without any open cell then has no NaN to pass on
        weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
        weights = weights.masked_fill(~allowed, 0.0)
    return (weights if dropout is None else dropout(weights)) @ v, weights  # (B, H, T, K), (B, H, T, S)


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, scale: float, bias: Tensor | None = None) -> Tensor:
    """The same output from PyTorch's kernel, which keeps no weights."""
    kernel, (n_rows, n_heads, n_queries, width) = functional.scaled_dot_product_attention, q.shape
    if bias is None and mask.is_plain_causal and n_queries == k.size(-2) > 1:
        return kernel(q, repeat_heads(k, n_heads), repeat_heads(v, n_heads), is_causal=True, scale=scale)
    allowed = mask.dense(n_queries, k.size(-2), q.device)
    if bias is None and n_queries == 1:
        if allowed is None:  # without a mask it takes a query of NaN for one that may attend to nothing (AVX-512)
            allowed = q.new_zeros(1, 1, 1, k.size(-2))
        # The queries that share a key are as good as several queries of one head: nothing is copied.
        return kernel(q.reshape(n_rows, k.size(1), -1, width), k, v, allowed, scale=scale).view(q.shape)
    if bias is not None:
        allowed = bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
    return kernel(q, repeat_heads(k, n_heads), repeat_heads(v, n_heads), allowed, scale=scale)


def local(q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, scale: float) -> Tensor:
    """`fused` for a window: queries go in pieces, each with the keys near it, so that cost grows with the length alone.

    Without it the kernel computes all T x S scores and throws away those that the mask closes.
    """
    (n_queries, n_keys), window = (q.size(-2), k.size(-2)), mask.window
    assert window is not None
    places = mask.positions
    if places is None:
        places = torch.arange(n_keys - n_queries, n_keys, device=q.device)[None]  # (1, T)
    out = []
    for queries, here in zip(q.split(max(window, SHORT), -2), places.split(max(window, SHORT), -1), strict=True):
        low, high = max(0, int(here.min()) - window), min(n_keys, int(here.max()) + 1 + (0 if mask.causal else window))
        valid = None if mask.valid is None else mask.valid[:, low:high]
        documents = None if mask.documents is None else mask.documents[:, low:high]  # ends with the last query's own
        near = Mask(causal=mask.causal, valid=valid, window=window, positions=here - low, documents=documents)
        out.append(fused(queries, k[:, :, low:high], v[:, :, low:high], near, scale=scale))
    return torch.cat(out, dim=-2)


def steady(q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, scale: float, bias: Tensor | None = None) -> Tensor:
    """`readable` to the bit in any company: more rows in the batch, more queries, and closed keys change nothing.

    A product adds up in the same order however many rows and columns it has, if there are some and what it adds up
    comes in whole vectors of the CPU. The sum in a softmax does not: it is computed in double precision, then rounded.
    """
    n_queries, n_keys = q.size(2), k.size(-2)
    if more := -n_keys % WHOLE:
        k, v = (functional.pad(x, (0, 0, 0, more)) for x in (k, v))
    added = mask.added(n_queries, n_keys, q)  # (B or 1, 1, T, S)
    if bias is not None:
        added = added + functional.pad(bias, (0, more))
    # The queries that share a key are as good as several queries of one head.
    rows = q.reshape(len(q), k.size(1), -1, q.size(-1))  # (B, G, H/G · T, K)
    n_rows = rows.size(2)
    scores = (at_least_some(rows) @ k.mT)[:, :, :n_rows].reshape(*q.shape[:3], -1)  # (B, H, T, S)
    weights = torch.add(added, scores, alpha=scale).softmax(-1, dtype=torch.float64).to(q.dtype)
    return (at_least_some(weights.view(*rows.shape[:3], -1)) @ v)[:, :, :n_rows].reshape(q.shape)


def at_least_some(rows: Tensor) -> Tensor:
    """Fewer rows are multiplied in another way."""
    return functional.pad(rows, (0, 0, 0, SOME - rows.size(-2))) if rows.size(-2) < SOME else rows


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, scale: float, bias: Tensor | None, dropout: Dropout
) -> Tensor:
    """The seam: whichever twin is faster here. With dropout on the weights the kernel loses its lead."""
    if mask.steady:
        return steady(q, k, v, mask, scale=scale, bias=bias)
    if dropout.is_active or products_are_faster(q, k.size(-2), mask):
        return readable(q, k, v, mask, scale=scale, bias=bias, dropout=dropout)[0]
    if mask.is_narrow(k.size(-2)) and bias is None:
        return local(q, k, v, mask, scale=scale)
    return fused(q, k, v, mask, scale=scale, bias=bias)


def products_are_faster(q: Tensor, n_keys: int, mask: Mask) -> bool:
    """Than the kernel, as measured on CPUs: of what is learnt from, the way back counts too."""
    if not q.is_cpu or q.size(-2) == 1:
        return False
    kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else q.dtype
    if q.requires_grad and kind == torch.bfloat16:  # back, the kernel takes five times as long as in float32
        return n_keys <= MIDDLING
    if q.requires_grad and mask.is_plain_causal:  # both ways the kernel is faster, at 64 keys by 1.7
        return False
    return n_keys <= SHORT


def repeat_heads(x: Tensor, n_heads: int) -> Tensor:
    """(B, G, S, K) -> (B, H, S, K): grouped heads share one key and value among H/G queries."""
    groups = n_heads // x.size(1)
    return x if groups == 1 else x.repeat_interleave(groups, dim=1)


class MultiHeadAttention(nn.Module):
    """Self-attention is `attn(*attn.project(x), mask)`.

    In cross-attention the queries look at a memory: `attn(attn.queries(x), *attn.keys_values(memory), mask)`.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        qkv_bias: bool = True,
        out_bias: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads or n_heads
        self.d_head = d_head or d_model // n_heads
        self.scale = self.d_head**-0.5 if scaled else 1.0
        self.dropout = Dropout(dropout)
        self.q = Linear(d_model, self.n_heads * self.d_head, bias=qkv_bias)
        self.k = Linear(d_model, self.n_kv_heads * self.d_head, bias=qkv_bias)
        self.v = Linear(d_model, self.n_kv_heads * self.d_head, bias=qkv_bias)
        self.o = Linear(self.n_heads * self.d_head, d_model, bias=out_bias)
        self.qkv: Linear | None = None

    def fuse(self) -> None:
        """From here on one product makes queries, keys and values: for self-attention that is done with training."""
        if self.qkv is None:
            self.qkv = joined([self.q, self.k, self.v])
            del self.q, self.k, self.v

    def project(self, x: Tensor, rotation: Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys and values (B, G, T, K) of the same tokens."""
        if self.qkv is None:
            return self.queries(x, rotation), *self.keys_values(x, rotation)
        n_turned = self.n_heads + self.n_kv_heads
        n_heads = n_turned + self.n_kv_heads  # counted, since no rows leave nothing to infer it from
        heads = self.qkv(x).view(*x.shape[:2], n_heads, self.d_head).transpose(1, 2)  # (B, H + 2G, T, K)
        turned = rotation.turn(heads[:, :n_turned]) if rotation else heads
        return turned[:, : self.n_heads], turned[:, self.n_heads : n_turned], heads[:, n_turned:]

    def queries(self, x: Tensor, rotation: Rotation | None = None) -> Tensor:
        assert self.qkv is None, "joined layers make queries, keys and values at once: call project"
        q = self.q(x).unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2)  # (B, H, T, K)
        return rotation.turn(q) if rotation else q

    def keys_values(self, memory: Tensor, rotation: Rotation | None = None) -> tuple[Tensor, Tensor]:
        k = self.k(memory).unflatten(-1, (self.n_kv_heads, self.d_head)).transpose(1, 2)  # (B, G, S, K)
        v = self.v(memory).unflatten(-1, (self.n_kv_heads, self.d_head)).transpose(1, 2)
        return (rotation.turn(k) if rotation else k), v

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, bias: Tensor | None = None) -> Tensor:
        out = attend(q, k, v, mask, scale=self.scale, bias=bias, dropout=self.dropout)
        return self.o(out.transpose(1, 2).flatten(-2))  # (B, T, D)
