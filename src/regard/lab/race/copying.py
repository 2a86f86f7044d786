"""How far back a symbol can be and still be said again, after the same processor time of training.

One of eight symbols, then noise, then the question. Distances are drawn evenly on a logarithmic scale, so that every
racer meets easy ones and hard ones alike.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.lab.race.practice import Pupil, practise
from regard.lab.race.racers import RACERS, Racer, config_of
from regard.lab.race.setting import Question, Setting
from regard.lab.race.sheet import Row, Sheet
from regard.training.step import seed_of

SYMBOLS, NOISE = 8, 8
ASKED = SYMBOLS + NOISE
FARTHEST, ROWS, TRIED = 128, 32, 128
ENOUGH = 0.9
"Share of the symbols that must be right."


def texts(n_rows: int, distance: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Ids (B, distance + 1), the symbol so many tokens before the question; and the answers, asked for at the end."""
    luck = torch.Generator().manual_seed(seed)
    ids = torch.randint(SYMBOLS, ASKED, (n_rows, distance + 1), generator=luck)
    ids[:, 0] = torch.randint(SYMBOLS, (n_rows,), generator=luck)
    ids[:, -1] = ASKED
    answers = torch.full_like(ids, -1)
    answers[:, -1] = ids[:, 0]
    return ids, answers


def drawn(seed: int, step: int, farthest: int) -> int:
    """A length from 1 to `farthest`, its logarithm evenly spread."""
    luck = torch.Generator().manual_seed(seed_of(seed, step, 1))
    return int(math.exp(float(torch.rand((), generator=luck)) * math.log(farthest + 1)))


@torch.inference_mode()
def accuracy(racer: Racer, distance: int, *, seed: int) -> float:
    ids, answers = texts(TRIED, distance, seed=seed_of(seed, -distance))
    return float((racer.output(ids).logits[:, -1].argmax(-1) == answers[:, -1]).float().mean())


def ask(setting: Setting) -> Iterator[Row]:
    farthest = min(FARTHEST, setting.longest)

    def batch(racer: Racer, step: int) -> Any:
        ids, answers = texts(ROWS, drawn(setting.seed, step, farthest), seed=seed_of(setting.seed, step))
        return racer.batch(ids, answers, 1)

    racers = [Racer(name, config_of(name, setting.size), setting.seed) for name in RACERS]
    pupils = [Pupil(f"copy, {racer.name}", racer, batch) for racer in racers]
    went_on = practise(pupils, setting, setting.until - 0.1 * setting.left)
    for pupil in pupils:
        racer, distances = pupil.racer, [2**i for i in range(int(math.log2(farthest)) + 1)]
        found = {distance: accuracy(racer, distance, seed=setting.seed) for distance in distances}
        facts = {"parameters": racer.model.n_parameters, "steps": pupil.steps, "seconds": pupil.seconds}
        yield {"racer": racer.name, "found": found, **facts}
    if not went_on:
        raise KeyboardInterrupt


def reach(found: dict[int, float]) -> int:
    """The farthest distance up to which all are copied well enough."""
    far = 0
    for distance, share in sorted(found.items()):
        if share < ENOUGH:
            break
        far = distance
    return far


def answer(rows: list[Row], setting: Setting) -> list[Sheet]:
    table = []
    for row in rows:
        shares = {f"{distance}": 100 * share for distance, share in row["found"].items()}
        facts = {"parameters": row["parameters"], "steps": row["steps"], "cpu s": row["seconds"]}
        table.append({"": row["racer"], **facts, **shares, "reach": reach(row["found"])})
    far = max(row["reach"] for row in table)
    best = " and ".join(row[""] for row in table if row["reach"] == far)
    says = [f"Farthest, {far} tokens back with {ENOUGH:.0%} right: {best}. Chance is {100 / SYMBOLS:g} %."]
    series = {row["racer"]: [100 * share for share in row["found"].values()] for row in rows}
    title, xs = "Symbols copied from so many tokens back, in %, after equal training", list(rows[0]["found"])
    return [
        Sheet("copy", title, table, says, frozenset({"cpu s"}), range(len(xs)), series, "distance, as a power of 2")
    ]


COPY = Question("copy", 4.0, ask, answer)
