"""A stack of blocks that writes: each token sees only those before it, and the memory if there is one."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.config import require
from regard.layers.choices import StackConfig
from regard.layers.embedding import Embedding
from regard.layers.encoder import Stack
from regard.layers.linear import Weight
from regard.layers.mask import WHOLE, Mask, positions_in, positions_of
from regard.layers.state import KeyValueState, Remembered


class Decoder(Stack):
    """Token ids (B, T) to vectors (B, T, D). With `cross` it attends to a memory (B, S, D) as well."""

    def __init__(self, config: StackConfig, vocab_size: int, *, cross: bool = False, tied: bool = False) -> None:
        super().__init__(config, causal=True, cross=cross)
        self.embed = Embedding(config, vocab_size, tied=tied)

    def forward(
        self,
        ids: Tensor,
        valid: Tensor | None = None,
        *,
        memory: Tensor | None = None,
        memory_valid: Tensor | None = None,
        table: Weight | None = None,
        documents: Tensor | None = None,
        n_before: int = 0,
    ) -> Tensor:
        """All positions at once, as in training; of several texts in a row, `documents` (B, T) are the numbers.

        The first `n_before` tokens are only looked back at: what comes out is of the others (B, T - n_before, D).
        """
        positions = positions_of(valid, ids.size(1), ids.device) if documents is None else positions_in(documents)
        if n_before:
            require(valid is None and 0 < n_before < ids.size(1), f"n_before is {n_before} of {ids.size(1)} tokens")
            return self._behind(n_before, ids, positions, documents, table)
        x = self.embed(ids, positions, table=table)
        mask = Mask(causal=True, valid=valid, window=self.config.window, documents=documents)
        return self.run(x, positions, mask, memory=memory, memory_mask=Mask(valid=memory_valid))

    def _behind(
        self, n_before: int, ids: Tensor, positions: Tensor, documents: Tensor | None, table: Weight | None
    ) -> Tensor:
        """The same numbers as at once, but no gradient goes to what was before (Dai et al. 2019)."""
        before, window = Remembered(), self.config.window

        def read(start: int, end: int) -> Tensor:
            here = positions[:, start:end]
            mask = Mask(causal=True, window=window, documents=None if documents is None else documents[:, :end])
            x = self.embed(ids[:, start:end], here, table=table)
            return self.run(x, here, mask, n_keys=end, before=before)

        with torch.no_grad():
            read(0, n_before)
        return read(n_before, ids.size(1))

    def new_state(
        self, batch: int, max_len: int, *, memory: Tensor | None = None, memory_valid: Tensor | None = None
    ) -> KeyValueState:
        """An empty state; cross-attention keys and values are projected here, once for all steps."""
        config, example = self.config, next(self.parameters())
        heads = config.n_kv_heads or config.n_heads
        shape = (config.n_layers, batch, heads, max_len, config.head_width)
        whole = WHOLE if self.exact else 1
        state = KeyValueState(shape, dtype=example.dtype, device=example.device, whole=whole)
        if memory is not None:
            if more := -memory.size(1) % whole:
                given = memory.new_ones(memory.shape[:2], dtype=torch.bool) if memory_valid is None else memory_valid
                memory, memory_valid = pad(memory, (0, 0, 0, more)), pad(given, (0, more))
            state.memory = [block.cross.keys_values(memory) for block in self.blocks]  # type: ignore[union-attr, operator]
            state.memory_valid = memory_valid
        return state

    def advance(
        self, ids: Tensor, state: KeyValueState, valid: Tensor | None = None, *, table: Weight | None = None
    ) -> Tensor:
        """The next tokens (B, T) after those in `state`, which remembers them; the same vectors as `forward`."""
        positions, mask = state.open(ids.size(1), valid)
        if self.config.window is not None:
            mask = Mask(causal=True, positions=positions, window=self.config.window)
        x = self.embed(ids, positions, table=table)
        memory_mask = Mask(valid=state.memory_valid)
        x = self.run(x, positions, mask, n_keys=state.end, memory_mask=memory_mask, state=state)
        state.close()
        return x
