"""A matrix in fewer bits than a float32, of which a linear layer or a table sees what it can do, not how it is held."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from regard.layers.native import CWeight, described, native, ready_product

Function = Callable[[Tensor], Tensor]
ROWS = 4096
"Rows that are rounded at once."


class ShortWeight(ABC):
    """(N, K). The linear layer calls `product`, an embedding takes `rows`; what goes in and comes out is float32."""

    dtype = torch.float32
    exact = False
    "Whether a row's product is the same to the bit, whatever other rows are there."

    def __init__(self, values: Tensor, *, table: bool = False) -> None:
        self.values, self.table = values, table
        self.shape = values.shape
        self.packed: Any = None
        self._own: CWeight | None = None
        self._last: tuple[Tensor | None, Function] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy finds out for itself where its numbers are."""
        return self.__dict__ | {"_own": None, "_last": None}

    @classmethod
    def of(cls, weight: Tensor, *, table: bool = False) -> Self:
        """Rounded; of a `table` rows are asked for as well."""
        return cls.of_parts(weight.split(ROWS), weight.shape, table=table)

    @classmethod
    @abstractmethod
    def of_parts(cls, parts: Iterable[Tensor], shape: Sequence[int], *, table: bool = False) -> Self:
        """Rounded some rows at a time, so that no more of them need be in memory."""

    @classmethod
    @abstractmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """One matrix of the rows of all."""

    kind: int
    "As the compiled library calls it."
    ahead: tuple[str, ...] = ()
    "Levels on which it is ahead of PyTorch for many rows, too."

    def native(self, bias: Tensor | None) -> CWeight | None:
        """As the compiled library reads it, which wants the values as they stand."""
        return described(self.values, None, bias, self.kind) if native() is not None and self.packed is None else None

    def pack(self, bias: Tensor | None = None, *, many_rows: bool = False) -> None:
        """Into the order in which PyTorch's kernel reads, if it is needed, is there and it is not yet done.

        The compiled library reads the values as they stand; for `many_rows` PyTorch's kernel may be the faster one.
        """
        library = native()
        if self.packed is None and (library is None or (many_rows and library.level not in self.ahead)):
            self.pack_for_torch(bias)

    @abstractmethod
    def pack_for_torch(self, bias: Tensor | None) -> None: ...

    @abstractmethod
    def plain(self) -> Tensor:
        """The values in their own order, which a packed matrix no longer holds."""

    def rows(self, ids: Tensor) -> Tensor:
        """Of a table, which is never packed away."""
        library = native()
        if library is None or not ids.is_cpu:
            return self.rows_by_torch(ids)
        if self._own is None:
            self._own = self.native(None)
        return self.rows_by_torch(ids) if self._own is None else library.look_up(self._own, ids)

    @abstractmethod
    def rows_by_torch(self, ids: Tensor) -> Tensor: ...

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x W^T + bias, for x (..., K)."""
        if self._last is None or self._last[0] is not bias:
            self._last = bias, self.ready(bias)
        return self._last[1](x)

    def ready(self, bias: Tensor | None) -> Function:
        """`product` with all that can be asked before."""
        own = self.native(bias)
        return self.ready_for_torch(bias) if own is None else ready_product(own)

    @abstractmethod
    def ready_for_torch(self, bias: Tensor | None) -> Function: ...

    def packed_as(self, packed: Any) -> None:
        """Only a table needs the plain order as well."""
        self.packed = packed
        if not self.table:
            self.values = self.values.new_empty(0)


def kernel(library: str, name: str) -> Any:
    """One of PyTorch's operators without its wrapper, which costs as much as a small product; None where it is gone."""
    packet = getattr(getattr(torch.ops, library), name, None)
    overload = getattr(packet, "default", None)
    return getattr(overload, "_op", overload)
