"""Blocks and products in C (kernels/), where a compiler was there when regard was installed; PyTorch's own otherwise.

The C code is compiled once for each kind of CPU. What is loaded here is the best that this CPU can run, and only after
it has shown to multiply rightly. Everything in it has a readable twin: `Block`, and `functional.linear`.
"""

import ctypes
import os
import zlib
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_int64, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.config import require

if TYPE_CHECKING:
    from regard.layers.short import ShortWeight

HOME = Path(__file__).parent / "kernels"
LEVELS: dict[str, tuple[str, ...]] = {
    "vnni": ("avx512_f", "avx512_bw", "avx512_vl", "avx512_vnni", "fma3", "f16c"),
    "avx2": ("avx2", "fma3", "f16c"),
}
"Kinds of CPU, best first, and what each must have."
CHOICE = "REGARD_NATIVE"
"The environment may name one of these levels, or `off`."
FLOAT, HALF, EIGHT = range(3)


class CWeight(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("values", "scales", "bias")),
        *((name, c_int64) for name in ("n", "k", "kind", "turn")),
    )


class Native:
    """One compiled library."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.made_of.restype = c_uint32
        if self.library.made_of() != sources():
            raise OSError(f"{path} was compiled from other files than those beside it")
        self._product = self.library.run_product
        self._product.argtypes = POINTER(CWeight), c_void_p, c_int64, c_void_p, c_int64
        self._look_up, self._top = self.library.run_look_up, self.library.run_top
        self._look_up.argtypes = POINTER(CWeight), c_void_p, c_int64, c_void_p
        self._top.argtypes = c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_int64
        self._top.restype = None
        self.level = path.stem

    def product(self, weight: CWeight, x: Tensor) -> Tensor:
        """x W^T + b, for x (..., K)."""
        if x.size(-1) != weight.k:
            raise ValueError(f"rows of {x.size(-1)} numbers, expected {weight.k}")
        refuse_tracing()
        x = x.float().contiguous()
        out = x.new_empty(*x.shape[:-1], weight.n)
        if x.numel():
            self.check(self._product(byref(weight), x.data_ptr(), x.numel() // weight.k, out.data_ptr(), n_threads()))
        return out

    def look_up(self, table: CWeight, ids: Tensor) -> Tensor:
        """Rows of a table: ids (...) to vectors (..., K)."""
        refuse_tracing()
        ids = ids.long().contiguous()
        out = torch.empty(*ids.shape, table.k, dtype=torch.float32, device="cpu")
        if self._look_up(byref(table), ids.data_ptr(), ids.numel(), out.data_ptr()):
            raise IndexError(f"an id is not below {table.n}")
        return out

    def top(self, scores: Tensor, k: int, total: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Of scores (..., V) the k best, which words they are; into `total` (...) the log of all exponentials' sum."""
        if k > scores.size(-1):
            raise ValueError(f"the best {k} of {scores.size(-1)} words")
        scores, shape = scores.contiguous(), (*scores.shape[:-1], k)
        best, words = scores.new_empty(shape), scores.new_empty(shape, dtype=torch.long)
        found = best.data_ptr(), words.data_ptr(), None if total is None else total.data_ptr()
        self._top(scores.data_ptr(), best.numel() // k, scores.size(-1), k, *found, n_threads())
        return best, words

    @staticmethod
    def check(code: int) -> None:
        if code:
            raise MemoryError("no memory for what lies between two layers")


def n_threads() -> int:
    return torch.get_num_threads()


def refuse_tracing() -> None:
    """PyTorch would record the memory that is written to, and nothing that is written."""
    if torch._C._get_tracing_state() is not None:
        raise RuntimeError("compiled blocks cannot be traced: set REGARD_NATIVE=off")


def sources() -> int:
    """Of the C files beside the libraries; tools/native.py compiles it in."""
    return zlib.crc32(b"".join(path.read_bytes() for path in sorted(HOME.glob("*.[ch]"))))


@cache
def native() -> Native | None:
    """What can be used here; None where nothing was compiled, or nothing of it is right."""
    chosen = os.environ.get(CHOICE, "")
    require(chosen in ("", "off", *LEVELS), f"{CHOICE} is {chosen!r}", f"expected off, or one of {', '.join(LEVELS)}")
    has: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    missing = [need for need in LEVELS.get(chosen, ()) if not has.get(need)]
    require(not missing, f"{CHOICE} is {chosen}, and this CPU has no {', '.join(missing)}", f"unset {CHOICE}")
    for level, needs in LEVELS.items():
        path = HOME / f"{level}.so"
        if chosen not in ("", level) or not path.is_file() or not all(has.get(need) for need in needs):
            continue
        try:
            found = Native(path)
        except (OSError, AttributeError):  # of other files, or for a PyTorch with OpenMP, whose threads are used
            continue
        with torch.device("cpu"):
            if is_right(found):
                return found
    return None


def is_right(found: Native) -> bool:
    """Whether it multiplies as PyTorch does, in every kind of weight; sizes that fit no vector, and the worst sums."""
    rows = torch.linspace(-3, 3, 23 * 147, dtype=torch.float32).sin().view(23, 147)
    weight = torch.linspace(-50, 50, 37 * 147, dtype=torch.float32).cos().view(37, 147)
    bias = torch.linspace(-1, 1, 37, dtype=torch.float32)
    eight, scales = torch.full((37, 147), 127, dtype=torch.int8), torch.full((37,), 1 / 127, dtype=torch.float32)
    ones = torch.ones_like(rows)
    cases = (weight, None, FLOAT, rows), (weight.half(), None, HALF, rows), (eight, scales, EIGHT, ones)
    for values, each, kind, x in cases:
        expected = torch.nn.functional.linear(x, values.float() * (1 if each is None else each[:, None]), bias)
        if not torch.allclose(found.product(described(values, each, bias, kind), x), expected, atol=1e-4):
            return False
    return True


def described(values: Tensor, scales: Tensor | None, bias: Tensor | None, kind: int, turn: int = 1) -> CWeight:
    """The weight as the library reads it; whoever holds it holds the tensors too."""
    tensors = values, scales, bias
    assert all(each is None or each.is_contiguous() for each in tensors)
    weight = CWeight(*(None if each is None else each.data_ptr() for each in tensors), *values.shape, kind, turn)
    weight.tensors = tensors  # kept alive
    return weight


def describe(weight: "Tensor | ShortWeight", bias: Tensor | None) -> CWeight | None:
    """Of what a linear layer holds; None where it is nothing for the library."""
    if bias is not None and (bias.dtype != torch.float32 or not bias.is_cpu or not bias.is_contiguous()):
        return None
    if not isinstance(weight, Tensor):
        return weight.native(bias)
    plain = weight.dtype == torch.float32 and weight.is_cpu and weight.is_contiguous()
    return described(weight, None, bias, FLOAT) if plain else None


def ready_product(weight: CWeight) -> Callable[[Tensor], Tensor]:
    library = native()
    assert library is not None
    return lambda x: library.product(weight, x)
