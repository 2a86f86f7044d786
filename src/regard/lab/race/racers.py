"""Who races: models of one width and depth, built from the same parts as every other model, with weights from a seed.

All but one are language models. A recurrent network with attention needs something to look back at, so it is an
encoder-decoder: of n tokens it reads the first ones and writes the others.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.language import TextBatch
from regard.data.pairs import PairBatch
from regard.layers.recurrent import RecurrentState
from regard.models.base import initialise
from regard.models.gpt import Gpt, GptConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.recurrent import build as build_recurrent
from regard.objectives.causal import Causal
from regard.objectives.seq2seq import Seq2Seq

RNN, LSTM, LOOKING, TRANSFORMER, LOCAL = "rnn", "lstm", "rnn + attention", "transformer", "transformer, local"
KEPT = "transformer, unfused"
"The same with dropout on the attention weights: the fused kernel cannot do that, so the T x T weights are computed."
RACERS = (RNN, LSTM, LOOKING, TRANSFORMER, LOCAL)
MAX_LEN = 1 << 14


@dataclass(frozen=True)
class Size:
    width: int = 32
    n_layers: int = 2
    n_heads: int = 2
    vocab_size: int = 32
    window: int = 16
    "Of local attention: a token sees itself and so many before it."


Config = GptConfig | RecurrentConfig


def config_of(name: str, size: Size, **changes: Any) -> Config:
    shared: dict[str, Any] = {"vocab_size": size.vocab_size, "d_model": size.width, "n_layers": size.n_layers}
    shared |= {"max_len": MAX_LEN, "pad_id": None, "eos_ids": ()}
    if name in (RNN, LSTM, LOOKING):
        kind = "translator" if name == LOOKING else "language_model"
        config: Config = RecurrentConfig(
            **shared,
            kind=kind,  # type: ignore[arg-type]
            cell="lstm" if name == LSTM else "rnn",
            attention="dot" if name == LOOKING else "none",
            start_id=None,
        )
    else:
        config = GptConfig(
            **shared, n_heads=size.n_heads, d_ff=4 * size.width, position="sinusoidal", tie=False, bos_id=None,
            window=size.window if name == LOCAL else None, attn_dropout=0.1 if name == KEPT else 0.0,
        )  # fmt: skip
    return replace(config, **changes)


class Racer:
    def __init__(self, name: str, config: Config, seed: int) -> None:
        torch.manual_seed(seed)
        self.name, self.config = name, config
        self.model: Any = Gpt(config) if isinstance(config, GptConfig) else build_recurrent(config)
        initialise(self.model, "xavier")
        self.paired = isinstance(config, RecurrentConfig) and config.kind == "translator"
        self.objective: Any = Seq2Seq(label_smoothing=0.0) if self.paired else Causal()

    @property
    def embedding(self) -> nn.Module:
        """Where the text enters."""
        found: nn.Module = (self.model.encoder if self.paired else self.model.decoder).embed
        return found

    def batch(self, ids: Tensor, answers: Tensor, written: int) -> TextBatch | PairBatch:
        """Ids (B, n) and what is to be said at each, -1 for nothing; an encoder-decoder writes the last `written`."""
        asked, answers = answers >= 0, answers.clamp(min=0)
        count, rows = int(asked.sum()), np.arange(len(ids))
        if not self.paired:
            return TextBatch(ids, answers, asked, count, rows)
        src, shown, said, real = ids[:, :-written], *(each[:, -written:] for each in (ids, answers, asked))
        return PairBatch(src, None, shown, said, real, int(real.sum()), rows)

    def output(self, ids: Tensor, written: int = 1) -> Any:
        return self.model(ids[:, :-written], ids[:, -written:]) if self.paired else self.model(ids)

    def after(self, ids: Tensor, room: int) -> Any:
        """The state in which `ids` are read, with room for so many more."""
        if self.paired:
            return self.model.new_state(self.model.encode(ids), None, room)
        state = self.model.new_state(len(ids), ids.size(1) + room)
        self.model.step(ids, state)
        return state


def held(state: Any, window: int | None) -> int:
    """Bytes that the next token needs of all tokens before it; the state may hold more, to be taken back."""
    if isinstance(state, RecurrentState):
        return state.carry.nbytes + state.source.values.nbytes + state.source.keys.nbytes
    first = 0 if window is None else max(0, state.end - window)
    found: int = state.keys_values[..., first : state.end, :].nbytes
    return found


def tokens(n_rows: int, length: int, size: Size, *, seed: int) -> Tensor:
    return torch.randint(size.vocab_size, (n_rows, length), generator=torch.Generator().manual_seed(seed))
