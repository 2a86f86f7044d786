"""A stack of blocks as plain functions, once it is done with training.

The numbers are those of `Block`, the readable twin. But for the single token of a decoding step, calling a module costs
as much as the small product inside it. So all that stays the same from step to step (whose weights and which kernel,
how many heads, where the norm stands) is settled once, and what remains is a list of functions. Whoever hangs a hook
on a module gets the modules.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from regard.layers.attention import MultiHeadAttention, attend
from regard.layers.block import Block, Context
from regard.layers.feedforward import FeedForward
from regard.layers.linear import Function, ready
from regard.layers.native_blocks import native_blocks
from regard.layers.norm import RmsNorm
from regard.layers.residual import Residual

Sublayer = Callable[[Tensor, Context], Tensor]


class Quick:
    def __init__(self, blocks: nn.ModuleList, norm: nn.Module | None) -> None:
        self.modules, self.native = (blocks, norm), native_blocks(blocks)
        self.sublayers = [sublayer for block in blocks for sublayer in sublayers(block)]  # type: ignore[arg-type]
        self.norm = None if norm is None else ready_norm(norm)
        modules = [*blocks.modules(), *([] if norm is None else [norm])]
        self.hooks = [hooks for module in modules for hooks in (module._forward_hooks, module._forward_pre_hooks)]
        self.hooks += _global_forward_hooks, _global_forward_pre_hooks

    def __reduce__(self) -> tuple[type, tuple[nn.ModuleList, nn.Module | None]]:
        """A copy is made of the copied modules: functions would go on with the weights of the old ones."""
        return Quick, self.modules

    def fits(self, x: Tensor, context: Context) -> bool:
        """A memory that was not yet projected is left to the modules, as is what only training asks for."""
        plain = not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu") and x.numel() > 0
        return plain and context.memory is None and context.before is None and not any(self.hooks)

    def __call__(self, x: Tensor, context: Context) -> Tensor:
        if self.native is not None and self.native.fits(x, context):
            x = self.native(x, context)
        else:
            for sublayer in self.sublayers:
                x = sublayer(x, context)
        return x if self.norm is None else self.norm(x)  # (B, T, D)


def sublayers(block: Block) -> list[Sublayer]:
    found = [around(block.attn_residual, self_attention(block.attn, block.layer))]
    if block.cross is not None and block.cross_residual is not None:
        found.append(around(block.cross_residual, cross_attention(block.cross, block.layer)))
    return [*found, around(block.ffn_residual, feed_forward(block.ffn))]


def around(residual: Residual, sublayer: Sublayer) -> Sublayer:
    norm = ready_norm(residual.norm)
    if residual.pre:
        return lambda x, context: sublayer(norm(x), context).add_(x)
    return lambda x, context: norm(sublayer(x, context).add_(x))


def ready_norm(norm: nn.Module) -> Function:
    if isinstance(norm, nn.LayerNorm):
        shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    if isinstance(norm, RmsNorm) and norm.eps is not None and norm.weight.dtype == torch.float32:
        weight, share, small = norm.weight, 1 / norm.weight.numel(), norm.weight.new_tensor(norm.eps)

        def rms(x: Tensor) -> Tensor:
            length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
            return x * torch.addcmul(small, length, length, value=share).rsqrt_() * weight

        return rms
    return norm.forward


def self_attention(attn: MultiHeadAttention, layer: int) -> Sublayer:
    assert attn.qkv is not None, "fused before"
    project, out, attention = ready(attn.qkv), ready(attn.o), partial(attend, scale=attn.scale, dropout=attn.dropout)
    n_turned, n_kv_heads = attn.n_heads + attn.n_kv_heads, attn.n_kv_heads
    heads, sizes = (n_turned + n_kv_heads, attn.d_head), (attn.n_heads, n_kv_heads, n_kv_heads)

    def run(x: Tensor, context: Context) -> Tensor:
        parts = project(x).view(*x.shape[:2], *heads).transpose(1, 2)  # (B, H + 2G, T, K)
        if context.rotation is None:
            q, k, v = parts.split_with_sizes(sizes, 1)  # of PyTorch's splits the one that is not written in Python
        else:
            turned, v = parts.split_with_sizes((n_turned, n_kv_heads), 1)
            q, k = context.rotation.turn(turned).split_with_sizes(sizes[:2], 1)
        if context.state is not None:
            k, v = context.state.append(layer, k, v)
        return out(attention(q, k, v, context.mask, bias=context.bias).transpose(1, 2).flatten(-2))

    return run


def cross_attention(attn: MultiHeadAttention, layer: int) -> Sublayer:
    project, out, attention = ready(attn.q), ready(attn.o), partial(attend, scale=attn.scale, dropout=attn.dropout)
    heads = attn.n_heads, attn.d_head

    def run(x: Tensor, context: Context) -> Tensor:
        assert context.state is not None
        assert context.memory_mask is not None
        k, v = context.state.memory[layer]  # (B / W, G, S, K), W hypotheses being as good as more tokens of one row
        q = project(x).view(len(k), -1, *heads).transpose(1, 2)  # (B / W, H, W · T, K)
        return out(attention(q, k, v, context.memory_mask, bias=None).transpose(1, 2).reshape(*x.shape[:2], -1))

    return run


def feed_forward(ffn: FeedForward) -> Sublayer:
    down, activation = ready(ffn.down), ffn.activation
    if ffn.gate_up is None:
        up = ready(ffn.up)
        return lambda x, _: down(activation(up(x)))
    gate_up = ready(ffn.gate_up)

    def run(x: Tensor, _: Context) -> Tensor:
        gate, inner = gate_up(x).chunk(2, dim=-1)
        return down(activation(gate).mul_(inner))

    return run
