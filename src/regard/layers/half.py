"""Weights in half floats: half of the memory to read, which is what a decoding step waits for.

The product is fbgemm's, which PyTorch carries: it widens the weights on their way in, so that rows and sums stay in
float32 and only the weights are rounded, a hundred times finer than in eight bits. It is one call and asks nothing of
the rows. For the few rows of a decoding step no other product of a CPU without VNNI is as fast, and for many rows it
is no slower than float32.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.layers.native import HALF, native
from regard.layers.short import Function, ShortWeight, kernel

FBGEMM = kernel("quantized", "linear_dynamic_fp16")
LARGEST = torch.finfo(torch.float16).max


class HalfWeight(ShortWeight):
    kind = HALF
    bias: Tensor | None = None
    "What the kernel adds by itself."

    @classmethod
    def of_parts(cls, parts: Iterable[Tensor], shape: Sequence[int], *, table: bool = False) -> "HalfWeight":
        now = table and native() is None and has_kernel()  # packed while float32 is at hand: tables are the largest
        if now:
            parts = [whole := torch.cat([part.float() for part in parts])]
        values, end = torch.empty(*shape, dtype=torch.float16), 0
        for some in parts:
            start, end = end, end + len(some)
            values[start:end] = some.float().clamp(-LARGEST, LARGEST) if is_sound(some) else some
        made = cls(values, table=table)
        if now and is_sound(whole):
            made.packed_as(prepack(whole, None))
        return made

    @classmethod
    def joined(cls, parts: Sequence["HalfWeight"]) -> "HalfWeight":
        return cls(torch.cat([part.plain() for part in parts]))

    def pack_for_torch(self, bias: Tensor | None) -> None:
        if has_kernel() and is_sound(whole := self.values.float()):
            self.bias = bias
            self.packed_as(prepack(whole, bias))

    def plain(self) -> Tensor:
        if self.values.numel() or self.packed is None:
            return self.values
        return torch.ops.quantized.linear_unpack_fp16(self.packed)[0].half()

    def rows_by_torch(self, ids: Tensor) -> Tensor:
        return self.values[ids].float()

    def ready_for_torch(self, bias: Tensor | None) -> Function:
        self.pack(bias)
        packed = self.packed
        if packed is None:
            return lambda x: functional.linear(x, self.values.float(), bias)
        if bias is self.bias:
            return lambda x: FBGEMM(x, packed)
        return lambda x: FBGEMM(x, packed).add_(bias)


def is_sound(weight: Tensor) -> bool:
    """fbgemm makes large numbers of NaN and infinity, and broken weights would write on: these are never packed."""
    return bool(weight.sum(dtype=torch.float64).isfinite())


def prepack(weight: Tensor, bias: Tensor | None) -> Any:
    return torch.ops.quantized.linear_prepack_fp16(weight.clamp(-LARGEST, LARGEST), bias)


@cache
def has_kernel() -> bool:
    """Found by trying: a PyTorch without the kernel, or a CPU that it is not made for, costs speed alone."""
    weight = torch.arange(24.0).view(3, 8) / 8
    try:
        out = FBGEMM(torch.ones(2, 8), prepack(weight, torch.ones(3)))
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(out, weight.sum(-1).expand(2, 3) + 1)
