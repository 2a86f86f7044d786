"""A stack of blocks as the compiled library reads it (kernels/block.h), and what it sees in one pass.

`Quick` asks here first. What the library does not know (a grid, several texts in a row, weights in bfloat16) stays with
the functions of quick.py; the numbers are the same either way.
"""

from ctypes import POINTER, Structure, byref, c_double, c_int64, c_void_p

import torch
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention
from regard.layers.block import Block, Context
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.linear import Linear
from regard.layers.native import FLOAT, CWeight, describe, n_threads, native, refuse_tracing
from regard.layers.norm import RmsNorm
from regard.layers.residual import Residual
from regard.layers.state import KeyValueState

MANY = 256
"Vectors from which on MKL multiplies in float32 as fast or faster."


def numbers(*names: str) -> list[tuple[str, type]]:
    return [(name, c_int64) for name in names]


def places(*names: str) -> list[tuple[str, type]]:
    return [(name, c_void_p) for name in names]


class CNorm(Structure):
    _fields_ = (*places("weight", "bias"), ("eps", c_double), *numbers("kind"))


class CAttention(Structure):
    _fields_ = (
        ("norm", CNorm),
        ("inward", CWeight),
        ("outward", CWeight),
        *numbers("pre", "n_heads", "n_kv_heads", "d_head"),
        ("scale", c_double),
    )


class CFeedForward(Structure):
    _fields_ = (("norm", CNorm), ("up", CWeight), ("down", CWeight), *numbers("pre", "activation", "gated"))


class CBlock(Structure):
    _fields_ = (("attn", CAttention), ("cross", CAttention), ("ffn", CFeedForward), *numbers("has_cross"))


class CKeys(Structure):
    _fields_ = (*places("k", "v"), *numbers("row", "head", "token"))


class CView(Structure):
    _fields_ = (
        ("held", CKeys),
        *numbers("layer"),
        *places("places"),
        *numbers("place_row"),
        *places("cos", "sin"),
        *numbers("turn_row"),
        *places("bias"),
        *numbers("bias_row", "bias_head", "bias_query", "bias_key"),
        *places("open"),
        *numbers("open_row", "n_keys", "causal", "window"),
        ("memory", POINTER(CKeys)),
        *numbers("n_memories", "memory_len"),
        *places("memory_open"),
        *numbers("memory_open_row"),
    )


class Unknown(Exception):
    """Something in these blocks is not for the library."""


class NativeBlocks:
    """Calling it takes x (B, T, D) through all blocks."""

    def __init__(self, blocks: nn.ModuleList) -> None:
        library = native()
        if library is None or not len(blocks):
            raise Unknown
        self.weights: list[CWeight] = []  # they hold the tensors
        self.placed: list[tuple[Tensor, int]] = []
        "Some tensors of every block and where they were: who gives a model new memory gives it to all."
        self.blocks = (CBlock * len(blocks))(*map(self._block, blocks))  # type: ignore[arg-type]
        self.floats = any(weight.kind == FLOAT for weight in self.weights)
        self.check, self._run = library.check, library.library.run_blocks
        self._run.argtypes = POINTER(CBlock), c_int64, c_void_p, c_int64, c_int64, POINTER(CView), c_int64

    def fits(self, x: Tensor, context: Context) -> bool:
        mask, writes = context.mask, context.state is not None
        few = not self.floats or (writes and x.size(0) * x.size(1) < MANY)  # in float32 reading is left to MKL
        plain = mask.grid is None and not mask.n_global and mask.documents is None
        if not writes:
            plain = plain and mask.positions is None
        here = all(tensor.data_ptr() == at for tensor, at in self.placed)
        return few and plain and here and x.dtype == torch.float32 and x.is_cpu

    def __call__(self, x: Tensor, context: Context) -> Tensor:
        refuse_tracing()
        self._check(x, context)
        x = x.clone(memory_format=torch.contiguous_format)
        view, kept = self._view(x, context)
        self.check(self._run(self.blocks, len(self.blocks), x.data_ptr(), *x.shape[:2], byref(view), n_threads()))
        del kept
        return x

    def _check(self, x: Tensor, context: Context) -> None:
        """What PyTorch would refuse; the library takes every number for granted."""
        n_rows, n_tokens, width = x.shape
        first, state, valid = self.blocks[0], context.state, context.mask.valid
        expect(width == first.ffn.up.k, f"rows of {width} numbers, expected {first.ffn.up.k}")
        if state is None:
            fits = valid is None or (valid.size(0) in (1, n_rows) and valid.size(1) == n_tokens)
            expect(fits, f"a mask of {None if valid is None else tuple(valid.shape)} for {n_rows} rows of {n_tokens}")
            return
        keys, n_places = state.store[0], state.places.size(0)
        expect(n_rows == state.lengths.size(0), f"{n_rows} rows, the decoding state holds {state.lengths.size(0)}")
        expect(n_places in (1, n_rows), f"{n_rows} rows in {n_places} places")
        sizes = len(self.blocks), first.attn.n_kv_heads, first.attn.d_head
        expect((keys.size(0), keys.size(2), keys.size(4)) == sizes, "the decoding state is of another model")
        if state.memory:
            n_memories = state.memory[0][0].size(0)
            expect(n_rows >= n_memories and n_rows % n_memories == 0, f"{n_rows} rows, {n_memories} memories")
            expect(len(state.memory) == len(self.blocks), "the memory is of another model")

    # ---- what stays the same ----

    def _block(self, block: Block) -> CBlock:
        made = CBlock(attn=self._attention(block.attn, block.attn_residual), ffn=self._feed_forward(block))
        if block.cross is not None and block.cross_residual is not None:
            made.cross, made.has_cross = self._attention(block.cross, block.cross_residual), 1
        return made

    def _attention(self, attn: MultiHeadAttention, residual: Residual) -> CAttention:
        return CAttention(
            norm=self._norm(residual.norm),
            inward=self._weight(attn.q if attn.qkv is None else attn.qkv),
            outward=self._weight(attn.o),
            pre=residual.pre,
            n_heads=attn.n_heads,
            n_kv_heads=attn.n_kv_heads,
            d_head=attn.d_head,
            scale=attn.scale,
        )

    def _feed_forward(self, block: Block) -> CFeedForward:
        ffn: FeedForward = block.ffn
        return CFeedForward(
            norm=self._norm(block.ffn_residual.norm),
            up=self._weight(ffn.up if ffn.gate_up is None else ffn.gate_up),
            down=self._weight(ffn.down),
            pre=block.ffn_residual.pre,
            activation=list(ACTIVATIONS).index(ffn.activation_name),
            gated=ffn.gate_up is not None,
        )

    def _weight(self, layer: Linear) -> CWeight:
        found = describe(layer.weight, layer.bias)
        if found is None:
            raise Unknown
        self.weights.append(found)
        return found

    def _norm(self, norm: nn.Module) -> CNorm:
        if not isinstance(norm, nn.LayerNorm | RmsNorm) or norm.eps is None:
            raise Unknown
        tensors = norm.weight, getattr(norm, "bias", None)
        if not all(each is None or (each.dtype == torch.float32 and each.is_cpu) for each in tensors):
            raise Unknown
        self.placed.append((norm.weight, norm.weight.data_ptr()))
        return CNorm(*map(place, tensors), norm.eps, 1 if isinstance(norm, nn.LayerNorm) else 2)

    # ---- what a pass sees ----

    def _view(self, x: Tensor, context: Context) -> tuple[CView, list[Tensor]]:
        mask, state = context.mask, context.state
        kept: list[Tensor] = []
        window = -1 if mask.window is None else mask.window
        view = CView(n_keys=x.size(1), causal=mask.causal, window=window)
        if state is not None:
            self._see_state(view, state)
        elif mask.valid is not None:
            view.open, view.open_row = opened(mask.valid, kept)
        if context.rotation is not None:
            cos, sin = context.rotation.cos.contiguous(), context.rotation.sin.contiguous()
            kept += cos, sin
            view.cos, view.sin, view.turn_row = place(cos), place(sin), 0 if cos.size(0) == 1 else cos[0].numel()
        if (bias := context.bias) is not None:
            view.bias, (row, *rest) = bias.data_ptr(), bias.stride()
            view.bias_row, view.bias_head, view.bias_query, view.bias_key = 0 if bias.size(0) == 1 else row, *rest
        if state is not None and state.memory:
            self._see_memory(view, state)
            if state.memory_valid is not None:
                view.memory_open, view.memory_open_row = opened(state.memory_valid, kept)
        return view, kept

    @staticmethod
    def _see_state(view: CView, state: KeyValueState) -> None:
        keys, values = state.store
        view.layer = keys.stride(0)
        view.held = CKeys(place(keys), place(values), *keys.stride()[1:4])
        view.places, view.place_row = state.places.data_ptr(), 0 if state.places.size(0) == 1 else state.places.size(1)
        view.n_keys, view.causal = state.end, 1

    @staticmethod
    def _see_memory(view: CView, state: KeyValueState) -> None:
        if state.described is None or state.described[0] is not state.memory:  # the same for many steps
            assert all(k.stride() == v.stride() and k.stride(3) == 1 for k, v in state.memory)
            found = [CKeys(place(k), place(v), *k.stride()[:3]) for k, v in state.memory]
            state.described = state.memory, (CKeys * len(found))(*found)
        k = state.memory[0][0]
        view.memory, view.n_memories, view.memory_len = state.described[1], k.size(0), k.size(2)


def opened(valid: Tensor, kept: list[Tensor]) -> tuple[int, int]:
    """Where a mask (B or 1, S) stands, and how far its rows are apart."""
    kept.append(valid := valid.bool().contiguous())
    return valid.data_ptr(), 0 if valid.size(0) == 1 else valid.size(1)


def expect(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)


def place(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def native_blocks(blocks: nn.ModuleList) -> NativeBlocks | None:
    try:
        return NativeBlocks(blocks)
    except Unknown:
        return None
