"""The logit lens (nostalgebraist 2020): what each layer would say, if it were the last.

After every block the stream goes through the final norm and the output layer. Nothing was trained to be read so early:
what early layers say is a hint, not a thought.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import UserError
from regard.inspection.capture import digits
from regard.inspection.figures.drawing import Drawing
from regard.inspection.figures.heat import heat_map
from regard.inspection.figures.shown import Shown
from regard.inspection.reading import Kind, Reading, watching
from regard.models.base import Output
from regard.models.bert import Bert
from regard.models.gpt import Gpt
from regard.models.transformer import Transformer

TOP = 5


@dataclass(frozen=True, eq=False)
class Lens(Shown):
    tokens: tuple[str, ...]
    words: tuple[tuple[tuple[str, ...], ...], ...]
    "Layer, token, the likeliest first. Layer 0 is what enters the first block."
    probabilities: Tensor  # (1 + L, T, top)
    final: Tensor  # (1 + L, T) probability of what the last layer says
    ranks: Tensor  # (1 + L, T) how many words stand before that

    def drawing(self) -> Drawing:
        layers = [f"layer {i}" if i else "embedding" for i in range(len(self.final))]
        said = [f"{name} ⇢ {top[0]}" for name, top in zip(self.tokens, self.words[-1], strict=True)]
        return heat_map(self.final, layers, said, title="Logit lens: probability of what the last layer says")

    def table(self) -> list[Sequence[object]]:
        rows: list[Sequence[object]] = [["layer", "token", "likeliest", "probability", "of the last word", "rank"]]
        for layer, words in enumerate(self.words):
            for at, top in enumerate(words):
                numbers = self.probabilities[layer, at, 0], self.final[layer, at]
                rows.append([layer, self.tokens[at], top[0], *map(float, numbers), int(self.ranks[layer, at])])
        return rows

    def numbers(self) -> NDArray[np.float32]:
        return self.final.numpy()

    def to_dict(self) -> dict[str, Any]:
        numbers = {"probabilities": digits(self.probabilities), "final": digits(self.final)}
        words = [[list(top) for top in layer] for layer in self.words]
        return {"type": "lens", "tokens": list(self.tokens), "words": words, **numbers, "ranks": self.ranks.tolist()}


@torch.no_grad()
def lens(reading: Reading, top: int = TOP) -> Lens:
    kind, read = _reader(reading)
    stack = reading.stack(kind)
    blocks = {str(i): block for i, block in enumerate(stack.blocks)}
    with watching(blocks) as calls:
        reading.run()
    streams = [calls["0"][0].args[0], *(calls[name][0].output for name in blocks)]
    layers = [read(x if stack.norm is None else stack.norm(x))[0].float().softmax(-1).cpu() for x in streams]
    found = torch.stack([layer.topk(min(top, layer.size(-1))).values for layer in layers])
    words = tuple(
        tuple(tuple(map(reading.name_of, row)) for row in layer.topk(min(top, layer.size(-1))).indices.tolist())
        for layer in layers
    )
    last = layers[-1].argmax(-1, keepdim=True)  # (T, 1)
    final = torch.stack([layer.gather(-1, last)[:, 0] for layer in layers])
    ranks = torch.stack([(layer > layer.gather(-1, last)).sum(-1) for layer in layers])
    return Lens(reading.queries(kind).names, words, found, final, ranks)


def _reader(reading: Reading) -> tuple[Kind, Callable[[Tensor], Tensor]]:
    """From vectors to scores of words, as the model itself does it at its end."""
    model: Any = reading.model
    if isinstance(model, Gpt) and model.unembed is not None:
        unembed, table = model.unembed, model.decoder.embed.token
        assert table is not None
        return "decoder", lambda x: unembed(x, table.weight)
    if isinstance(model, Transformer) and reading.target is not None:
        return "decoder", lambda x: model.unembed(x, model.target_table)
    if isinstance(model, Bert) and "masked_lm" in model.config.heads:
        return "encoder", lambda x: Output(model.apply_head("masked_lm", x, None), x).logits
    raise UserError(
        "the logit lens needs a model that ends in words and has layers to look at",
        "give a language model, a translator or a BERT with its masked-word head",
    )
