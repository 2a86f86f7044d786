"""Eight-bit weights: a quarter of the memory to read, which is what a decoding step waits for.

Every row of the matrix has a scale of its own, and so has every row that it is multiplied with, found as the row
comes: what a row becomes does not depend on its batch mates. The product is fbgemm's, which PyTorch carries; it wants
one scale for all rows, so each is divided by its largest number first and multiplied back afterwards.

A few numbers of a row are often ten times the others, and a scale for them leaves the others few steps. So rows and
matrix are both turned by a Hadamard matrix first, which spreads every number over its block and leaves the product as
it is (Ashkboos et al. 2024, QuaRot).
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.layers.native import EIGHT, CWeight, described, native
from regard.layers.short import Function, ShortWeight, kernel

FBGEMM = kernel("quantized", "linear_with_input_q_dq_qweight_dq_output_fp32")
TINY = torch.finfo(torch.float32).tiny


class Int8Weight(ShortWeight):
    exact = True
    kind = EIGHT
    ahead = ("avx2",)

    def __init__(self, values: Tensor, scales: Tensor, *, table: bool = False) -> None:
        super().__init__(values, table=table)  # (N, K) int8
        self.scales = scales  # (N) float

    @classmethod
    def of_parts(cls, parts: Iterable[Tensor], shape: Sequence[int], *, table: bool = False) -> "Int8Weight":
        """Turned, then rounded to 127 steps on either side of zero, row by row."""
        values, scales, end = torch.empty(*shape, dtype=torch.int8), torch.empty(shape[0]), 0
        for some in parts:
            start, end = end, end + len(some)
            turned = turn(some.float())
            largest = torch.maximum(turned.amax(-1), -turned.amin(-1))
            scale = largest.clamp_(min=TINY * 127) / 127
            scales[start:end] = scale
            values[start:end] = turned.div_(scale[:, None]).round_()
        return cls(values, scales, table=table)

    @classmethod
    def joined(cls, parts: Sequence["Int8Weight"]) -> "Int8Weight":
        return cls(torch.cat([part.plain() for part in parts]), torch.cat([part.scales for part in parts]))

    def native(self, bias: Tensor | None) -> CWeight | None:
        block = len(hadamard(self.shape[1]))
        usable = native() is not None and self.packed is None
        return described(self.values, self.scales, bias, EIGHT, block) if usable else None

    def pack_for_torch(self, bias: Tensor | None) -> None:
        if largest_step() is not None:
            self.packed_as(prepack(self.values, self.scales))

    def plain(self) -> Tensor:
        if self.values.numel() or self.packed is None:
            return self.values
        return torch.ops.quantized.linear_unpack(self.packed)[0].int_repr()

    def rows_by_torch(self, ids: Tensor) -> Tensor:
        wide = self.values[ids] * self.scales[ids][..., None]
        return turn(wide).view(*ids.shape, self.shape[1])  # turned twice is turned back

    def ready_for_torch(self, bias: Tensor | None) -> Function:
        self.pack()
        (n, width), packed, steps = self.shape, self.packed, largest_step()
        block = hadamard(width)
        if steps is None:
            return lambda x: functional.linear(turn(x).view(x.shape), self.values * self.scales[:, None], bias)
        step, zero = 1 / steps, steps + 1

        def run(x: Tensor) -> Tensor:
            turned = torch.mm(x.reshape(-1, len(block)), block).view(-1, width)  # (M, K)
            scale = turned.abs().amax(-1, keepdim=True)  # (M, 1); the norm of that name is 15 times as slow
            # A row of zeros becomes 0 / 0, and whatever the kernel makes of that, 0 again when it is multiplied back.
            out = FBGEMM(turned.div_(scale), step, zero, packed)  # (M, N)
            out = out.mul_(scale) if bias is None else torch.addcmul(bias, out, scale, out=out)
            return out.view(*x.shape[:-1], n)

        return run


def prepack(values: Tensor, scales: Tensor) -> Any:
    zeros = torch.zeros(len(scales), dtype=torch.long)
    with warnings.catch_warnings():  # PyTorch will drop this kernel one day; `largest_step` then finds it gone
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
        whole = torch._make_per_channel_quantized_tensor(values, scales.double(), zeros, 0)
    return torch.ops.quantized.linear_prepack(whole, None)


def turn(x: Tensor) -> Tensor:
    """Rows x (..., K), each block of them times a Hadamard matrix: (M, K), of which turning again gives x."""
    width = x.size(-1)
    block = hadamard(width)
    return torch.mm(x.reshape(-1, len(block)), block).view(-1, width)


@cache
def hadamard(width: int) -> Tensor:
    """(n, n) of 1 and -1, over the root of n; n is a power of 2 up to 16 that divides the width a dozen times.

    With fewer blocks MKL adds up in another order for one row than for many: rows would feel their batch mates.
    """
    n = next(n for n in (16, 8, 4, 2, 1) if width % n == 0 and (width // n >= 12 or n == 1))
    matrix = torch.ones(1, 1)
    while len(matrix) < n:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(n)


@cache
def largest_step() -> int | None:
    """Into how many steps this CPU's product may cut a number; None where it is missing or wrong.

    Without VNNI the instruction adds two products in 16 bits, which overflow with numbers of eight bits and do not with
    seven. What the kernel really does here is found by trying the worst case, not by asking for the CPU's name.
    """
    x, ones, scales = torch.ones(1, 64), torch.full((8, 64), 127, dtype=torch.int8), torch.full((8,), 1 / 127)
    for steps in (127, 63):
        try:
            out = FBGEMM(x, 1 / steps, steps + 1, prepack(ones, scales))
        except (AttributeError, RuntimeError, TypeError):
            return None
        if torch.allclose(out, torch.full((1, 8), 64.0), rtol=1e-3):
            return steps
    return None
