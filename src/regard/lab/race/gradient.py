"""How much a token far back still moves the last output: the gradient over the distance, of fresh weights."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from regard.lab.race.fit import slope
from regard.lab.race.racers import RACERS, RNN, Racer, config_of, tokens
from regard.lab.race.setting import Question, Setting
from regard.lab.race.sheet import Row, Sheet

FARTHEST, ROWS, GAIN = 256, 8, 4.0
LARGE = f"rnn, weights x {GAIN:g}"
"Recurrent weights so large that a difference grows from token to token instead of fading."


def norms(racer: Racer, ids: Tensor) -> Tensor:
    """(B, n): the length of the gradient of one direction of the last output, by distance from the last token read."""
    kept: list[Tensor] = []

    def keep(_module: object, _inputs: object, output: Tensor) -> None:
        output.retain_grad()
        kept.append(output)

    handle = racer.embedding.register_forward_hook(keep)
    hidden = racer.output(ids).hidden[:, -1]  # (B, D)
    handle.remove()
    direction = torch.ones_like(hidden[0]) / math.sqrt(hidden.size(-1))
    direction[::2] *= -1  # a norm takes the mean away, so the sum of all says nothing
    (hidden @ direction).sum().backward()
    assert kept[0].grad is not None
    return kept[0].grad.norm(dim=-1).flip(1)


def racer_of(name: str, setting: Setting) -> Racer:
    racer = Racer(name, config_of(RNN if name == LARGE else name, setting.size), setting.seed)
    racer.model.double().eval()  # in single precision what fades is soon zero
    if name == LARGE:
        with torch.no_grad():
            for key, weight in racer.model.decoder.recurrence.layers.named_parameters():
                if key.startswith("weight_hh"):
                    weight *= GAIN
    return racer


def ask(setting: Setting) -> Iterator[Row]:
    n = min(FARTHEST, setting.longest) + 2
    for name in (LARGE, *RACERS):
        setting.told(f"{name}: gradients")
        found = norms(racer_of(name, setting), tokens(ROWS, n, setting.size, seed=setting.seed))
        yield {"racer": name, "norms": (found / found[:, :1]).tolist()}


def answer(rows: list[Row], setting: Setting) -> list[Sheet]:
    table, series, says = [], {}, []
    n = len(rows[0]["norms"][0])
    shown = [d for d in (1, 4, 16, 64, 256) if d < n]
    drawn = [d for power in range(9) for d in (2**power, 3 * 2**power // 2) if d <= shown[-1]][1:]
    for row in rows:
        by_distance = list(zip(*row["norms"], strict=True))[: shown[-1] + 1]
        means = [sum(each) / len(each) for each in by_distance]
        real = {float(d): [math.log(x) for x in each] for d, each in enumerate(by_distance) if d and min(each) > 0}
        a_token = slope(real)
        factor = " ".join(f"{math.exp(x):.3f}" for x in (a_token.value, a_token.low, a_token.high)).split()
        reach = max(int(d) for d in real)
        cells = {f"{d} back": means[d] for d in shown}
        table.append(
            {"": row["racer"], **cells, "a token": f"{factor[0]} [{factor[1]}, {factor[2]}]", "above 0": reach}
        )
        series[row["racer"]] = [means[d] for d in drawn]
        says.append(f"{row['racer']}: {_word(math.exp(a_token.value), reach, shown[-1])}.")
    title = "Length of the gradient by distance, that of the last token read being 1, fresh weights"
    return [Sheet("gradient", title, table, says, frozenset(), drawn, series, "tokens back", True)]


def _word(factor: float, reach: int, farthest: int) -> str:
    if reach < farthest:
        return f"nothing beyond {reach} tokens: blocks times window"
    if 0.99 <= factor <= 1.01:
        return "keeps, whatever the distance"
    return f"vanishes, by {factor:.3f} a token" if factor < 1 else f"explodes, by {factor:.3f} a token"


GRADIENT = Question("gradient", 0.5, ask, answer)
