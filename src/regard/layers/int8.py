"""Eight-bit weights: a quarter of the memory to read, which is what a decoding step waits for.

Every row of the matrix has a scale of its own, and so has every row that it is multiplied with, found as the row
comes: what a row becomes does not depend on its batch mates. The product is fbgemm's, which PyTorch carries; it wants
one scale for all rows, so each is divided by its largest number first and multiplied back afterwards.
"""

import warnings
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

FBGEMM: Any = getattr(torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32", None)
TINY = torch.finfo(torch.float32).tiny


class Int8Weight:
    """A matrix (N, K) in eight bits: the linear layer calls `product`, an embedding takes `rows`."""

    dtype = torch.float32  # of what goes in and comes out

    def __init__(self, values: Tensor, scales: Tensor, *, table: bool = False) -> None:
        self.values, self.scales, self.table = values, scales, table  # (N, K) int8, (N) float
        self.shape = values.shape

    @classmethod
    def of(cls, weight: Tensor, *, table: bool = False) -> "Int8Weight":
        """Rounded to 127 steps on either side of zero, row by row."""
        scales = weight.abs().amax(-1).float().clamp_(min=TINY * 127) / 127
        return cls((weight / scales[:, None]).round_().to(torch.int8), scales, table=table)

    @classmethod
    def joined(cls, parts: Sequence["Int8Weight"]) -> "Int8Weight":
        return cls(torch.cat([part.values for part in parts]), torch.cat([part.scales for part in parts]))

    @cached_property
    def packed(self) -> Any:
        """The values in the order in which the kernel reads them; only a table needs the plain order as well."""
        zeros = torch.zeros(len(self.scales), dtype=torch.long)
        with warnings.catch_warnings():  # PyTorch will drop this kernel one day; `largest_step` then finds it gone
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
            whole = torch._make_per_channel_quantized_tensor(self.values, self.scales.double(), zeros, 0)
        packed = torch.ops.quantized.linear_prepack(whole, None)
        if not self.table:
            self.values = self.values.new_empty(0)
        return packed

    def rows(self, ids: Tensor) -> Tensor:
        return self.values[ids] * self.scales[ids][..., None]

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        steps = largest_step()
        if steps is None:
            return functional.linear(x, self.values * self.scales[:, None], bias)
        x, shape = x.reshape(-1, x.size(-1)), x.shape
        scale = x.abs().amax(-1, keepdim=True)  # (M, 1)
        # A row of zeros becomes 0 / 0, and whatever the kernel makes of that, 0 again when it is multiplied back.
        out = FBGEMM(x / scale, 1 / steps, steps + 1, self.packed)  # (M, N)
        out = out.mul_(scale) if bias is None else torch.addcmul(bias, out, scale, out=out)
        return out.view(*shape[:-1], -1)


@cache
def largest_step() -> int | None:
    """Into how many steps this CPU's product may cut a number; None where it is missing or wrong.

    Without VNNI the instruction adds two products in 16 bits, which overflow with numbers of eight bits and do not with
    seven. What the kernel really does here is found by trying the worst case, not by asking for the CPU's name.
    """
    x, weight = torch.ones(1, 64), torch.ones(8, 64)
    for steps in (127, 63):
        try:
            out = FBGEMM(x, 1 / steps, steps + 1, Int8Weight.of(weight).packed)
        except (AttributeError, RuntimeError, TypeError):
            return None
        if torch.allclose(out, x @ weight.mT, rtol=1e-3):
            return steps
    return None
