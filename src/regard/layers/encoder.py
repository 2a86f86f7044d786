"""A stack of blocks that reads a whole text, or image, at once: every token sees every other."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from regard.layers.block import Block, Context
from regard.layers.choices import StackConfig
from regard.layers.embedding import Embedding
from regard.layers.linear import Weight
from regard.layers.mask import Mask, positions_of
from regard.layers.norm import make_norm
from regard.layers.position import RelativeBias, RotaryPosition
from regard.layers.quick import Quick


class Stack(nn.Module):
    """Blocks, the positions that act inside attention, and the final norm: common to encoder and decoder."""

    def __init__(self, config: StackConfig, *, causal: bool, cross: bool = False) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(Block(config, layer, cross=cross) for layer in range(config.n_layers))
        self.norm = make_norm(config.norm, config.d_model, config.norm_eps) if config.final_norm else None
        self.quick: Quick | None = None
        self.exact = False
        self.relative: RelativeBias | None = None
        self.rotary: RotaryPosition | None = None
        if config.position == "relative":
            self.relative = RelativeBias(
                config.n_heads, config.n_buckets, config.max_distance, bidirectional=not causal
            )
        if config.position == "rotary":
            self.rotary = RotaryPosition(config.head_width, config.rope_theta, config.rope_scaling)

    def quicken(self, *, exact: bool) -> None:
        """From here on there is a shorter way to the same numbers; all blocks are fused.

        With `exact` they are the same to the bit in any company. Products in eight bits are; but where attention is
        off by a millionth, the next layer rounds a number to its neighbour, and some layers later all are different.
        """
        self.exact, self.quick = exact, Quick(self.blocks, self.norm)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What was settled for the old type or device of the weights is settled anew."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.quick is not None:
            self.quicken(exact=self.exact)
        return self

    def run(self, x: Tensor, positions: Tensor, mask: Mask, *, n_keys: int | None = None, **rest: Any) -> Tensor:
        """Through all blocks; `n_keys` is given when there are more keys than `x` has tokens."""
        bias = rotation = None
        if self.relative is not None:
            keys = torch.arange(x.size(1) if n_keys is None else n_keys, device=x.device)[None]
            queries = keys[:, -x.size(1) :] if rest.get("state") is None else positions
            bias = self.relative(queries, keys).to(x.dtype)
        if self.rotary is not None:
            rotation = self.rotary(positions, x.dtype)
        context = Context(mask, bias=bias, rotation=rotation, **rest)
        for each in (mask, context.memory_mask):
            if each is not None:
                each.steady = self.exact
        if self.quick is not None and not self.training and self.quick.fits(x, context):
            return self.quick(x, context)
        for block in self.blocks:
            x = block(x, context)
        return x if self.norm is None else self.norm(x)


class Encoder(Stack):
    """Token ids (B, S) to vectors (B, S, D)."""

    def __init__(self, config: StackConfig, vocab_size: int, *, tied: bool = False) -> None:
        super().__init__(config, causal=False)
        self.embed = Embedding(config, vocab_size, tied=tied)

    def forward(
        self, ids: Tensor, valid: Tensor | None = None, *, segments: Tensor | None = None, table: Weight | None = None
    ) -> Tensor:
        positions = positions_of(valid, ids.size(1), ids.device)
        x = self.embed(ids, positions, segments=segments, table=table)
        return self.run(x, positions, Mask(valid=valid, window=self.config.window))
