"""What is left of the differences between tokens as attention is stacked (Dong et al. 2021, "Attention is not all you
need"): alone it makes all tokens alike, residual and feed-forward keep them apart."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.lab.race.setting import Question, Setting
from regard.lab.race.sheet import Row, Sheet
from regard.layers.block import Block, Context
from regard.layers.choices import StackConfig
from regard.layers.encoder import Encoder
from regard.layers.mask import Mask
from regard.models.base import initialise

DEPTH, LENGTH, TRIES = 12, 32, 5
GONE = 1e-6
"What differs by less than this share is the same."

WAYS: dict[str, Callable[[Block, Tensor, Context], Tensor]] = {
    "attention alone": lambda block, x, context: block.attend_self(x, context),
    "with feed-forward": lambda block, x, context: block.ffn(block.attend_self(x, context)),
    "with residual": lambda block, x, context: x + block.attend_self(x, context),
    "with both": lambda block, x, context: _fed(block, x + block.attend_self(x, context)),
    "the whole block, with norm": lambda block, x, context: block(x, context),
}
"The same weights put together in other ways."


def _fed(block: Block, x: Tensor) -> Tensor:
    out: Tensor = x + block.ffn(x)
    return out


def apart(x: Tensor) -> float:
    """How far tokens (T, D) are from being all the same: 0 if they are, 1 if their mean is nothing."""
    return float((x - x.mean(0)).norm() / x.norm())


def effective_rank(x: Tensor) -> float:
    """The exponential of the entropy of the singular values (Roy and Vetterli 2007): n for n equal ones."""
    values = torch.linalg.svdvals(x)
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(torch.exp(-(shares * shares.log()).sum()))


@torch.inference_mode()
def through(way: str, setting: Setting, seed: int) -> list[tuple[float, float]]:
    """Both measures after every block."""
    size = setting.size
    widths: dict[str, Any] = {"d_model": size.width, "n_heads": size.n_heads, "d_ff": 4 * size.width}
    config = StackConfig(**widths, n_layers=DEPTH, embed_scale=True)
    torch.manual_seed(seed)
    encoder = Encoder(config, size.vocab_size).double().eval()
    initialise(encoder, "xavier")
    ids, context = torch.randint(size.vocab_size, (1, LENGTH)), Context(Mask())
    x = encoder.embed(ids, torch.arange(LENGTH)[None])
    found = [(apart(x[0]), effective_rank(x[0]))]
    for block in encoder.blocks:
        assert isinstance(block, Block)
        x = WAYS[way](block, x, context)
        found.append((apart(x[0]), effective_rank(x[0])))
    return found


def ask(setting: Setting) -> Iterator[Row]:
    for way in WAYS:
        setting.told(f"rank: {way}")
        tries = [through(way, setting, setting.seed + number) for number in range(TRIES)]
        yield {"way": way, "apart": _middles(tries, 0), "rank": _middles(tries, 1)}


def _middles(tries: list[list[tuple[float, float]]], which: int) -> list[float]:
    return [sorted(each[depth][which] for each in tries)[TRIES // 2] for depth in range(DEPTH + 1)]


def answer(rows: list[Row], setting: Setting) -> list[Sheet]:
    depths, table = (0, 1, 2, 4, 8, 12), []
    for row in rows:
        shares = {f"after {depth}": row["apart"][depth] for depth in depths}
        table.append({"": row["way"], **shares, "effective rank": row["rank"][-1]})
    low = [row["way"] for row in rows if row["apart"][-1] < GONE]
    says = [f"All tokens become one: {', '.join(low) or 'nowhere'}. 1 is all apart, 0 all the same."]
    says.append(f"{LENGTH} tokens, fresh weights, the median of {TRIES} seeds.")
    title = f"How far apart the tokens stay through {DEPTH} blocks, width {setting.size.width}"
    series = {row["way"]: row["apart"] for row in rows}
    return [Sheet("rank", title, table, says, frozenset(), range(DEPTH + 1), series, "blocks")]


RANK = Question("rank", 1.0, ask, answer)
