"""The block: attention, perhaps cross-attention, feed-forward, each inside a residual.

x ──► attention ──► (cross-attention) ──► feed-forward ──► x
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention
from regard.layers.choices import BlockConfig
from regard.layers.feedforward import FeedForward
from regard.layers.mask import Mask
from regard.layers.norm import make_norm
from regard.layers.position import Rotation
from regard.layers.residual import Residual
from regard.layers.state import KeyValueState, Remembered


@dataclass(frozen=True)
class Context:
    """What all blocks of one forward pass share."""

    mask: Mask
    bias: Tensor | None = None
    "(B or 1, H, T, S) relative positions."
    rotation: Rotation | None = None
    "Rotary positions."
    memory: Tensor | None = None
    "(B, S, D) what cross-attention looks at."
    memory_mask: Mask | None = None
    state: KeyValueState | None = None
    "Keys and values of earlier tokens, when decoding step by step."
    before: Remembered | None = None
    "Keys and values of earlier pieces, when a long text is read piece by piece."


class Block(nn.Module):
    def __init__(self, config: BlockConfig, layer: int, *, cross: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.attn = make_attention(config)
        self.attn_residual = make_residual(config)
        self.cross = make_attention(config) if cross else None
        self.cross_residual = make_residual(config) if cross else None
        self.ffn = FeedForward(
            config.d_model,
            config.d_ff,
            config.activation,
            gated=config.gated,
            bias=config.ffn_bias,
            dropout=config.ffn_dropout,
        )
        self.ffn_residual = make_residual(config)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attn_residual(x, lambda h: self.attend_self(h, context))
        if self.cross_residual is not None:
            x = self.cross_residual(x, lambda h: self.attend_memory(h, context))
        return self.ffn_residual(x, self.ffn)

    def fuse(self) -> None:
        """Fewer and larger products, the same numbers; the block can then no longer be trained or saved."""
        self.attn.fuse()
        self.ffn.fuse()

    def attend_self(self, x: Tensor, context: Context) -> Tensor:
        q, k, v = self.attn.project(x, context.rotation)
        if context.state is not None:
            k, v = context.state.append(self.layer, k, v)
        if context.before is not None:
            k, v = context.before.append(self.layer, k, v)
        return self.attn(q, k, v, context.mask, bias=context.bias)

    def attend_memory(self, x: Tensor, context: Context) -> Tensor:
        assert self.cross is not None
        assert context.memory_mask is not None
        if context.state is not None and context.state.memory:
            k, v = context.state.memory[self.layer]
        else:
            assert context.memory is not None
            k, v = self.cross.keys_values(context.memory)
        # Hypotheses of one sentence look at the same memory: they are as good as more tokens of one row.
        rows = x.reshape(len(k), -1, x.size(-1)) if len(k) else x  # (B, W · T, D)
        return self.cross(self.cross.queries(rows), k, v, context.memory_mask).view(x.shape)


def make_attention(config: BlockConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.n_heads,
        n_kv_heads=config.n_kv_heads,
        d_head=config.d_head,
        qkv_bias=config.qkv_bias,
        out_bias=config.out_bias,
        scaled=config.scaled,
        dropout=config.attn_dropout,
    )


def make_residual(config: BlockConfig) -> Residual:
    return Residual(make_norm(config.norm, config.d_model, config.norm_eps), config.norm_order, config.dropout)
