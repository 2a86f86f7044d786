"""A text that is known, read at once and token by token: what can be done in parallel, and what must wait."""

from collections.abc import Iterator
from statistics import median

import torch

from regard.lab.race.cost import timed
from regard.lab.race.racers import LOCAL, RACERS, TRANSFORMER, Racer, config_of, tokens
from regard.lab.race.setting import Question, Setting
from regard.lab.race.sheet import Row, Sheet

LENGTH, ROUNDS = 512, 3


@torch.inference_mode()
def measure(racer: Racer, length: int, setting: Setting) -> dict[str, float]:
    """Milliseconds of one core; an encoder reads its half at once both times."""
    ids, half = tokens(1, length, setting.size, seed=setting.seed), length // 2
    racer.model.eval()

    def at_once() -> None:
        racer.output(ids, half)

    def one_by_one() -> None:
        memory = (racer.model.encode(ids[:, :half]), None) if racer.paired else (1,)
        state = racer.model.new_state(*memory, length)
        for token in (ids[:, half:] if racer.paired else ids).split(1, dim=1):
            racer.model.step(token, state)

    at_once()
    ways = {"one by one ms": one_by_one, "at once ms": at_once}
    return {name: median(timed(work) for _ in range(ROUNDS)) for name, work in ways.items()}


def ask(setting: Setting) -> Iterator[Row]:
    length, layers = min(LENGTH, setting.longest), setting.size.n_layers
    for name in RACERS:
        setting.told(f"{name}: reading at once and one by one")
        found = measure(Racer(name, config_of(name, setting.size), setting.seed), length, setting)
        waits = layers if name in (TRANSFORMER, LOCAL) else length + layers - 1
        yield {"": name, **found, "in series": waits}


def answer(rows: list[Row], setting: Setting) -> list[Sheet]:
    says = [
        "in series: cells or blocks that wait for each other, which no number of cores shortens.",
        "Token by token every layer is called for every token; at once attention multiplies all tokens together, and",
        "a recurrent kernel still goes from token to token, without the calls between.",
    ]
    clocked = frozenset({"one by one ms", "at once ms"})
    title = f"{min(LENGTH, setting.longest):,} known tokens, read one by one and at once, on one core"
    return [Sheet("parallel", title, rows, says, clocked)]


SERIAL = Question("parallel", 0.5, ask, answer)
