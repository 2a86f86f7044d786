"""How far back a symbol can be and still be said again, after the same processor time of training.

Every symbol has a name, and one is asked for by it: "animal ... it". Nobody knows beforehand which one will be needed,
so whoever has a state must keep them all, and whoever can look back need not. Texts are of all lengths, drawn evenly on
a logarithmic scale.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.lab.race.practice import Pupil, practise
from regard.lab.race.racers import RACERS, Racer, config_of
from regard.lab.race.setting import LONGER, Question, Setting
from regard.lab.race.sheet import Row, Sheet
from regard.training.step import seed_of

NAMES, VALUES, FARTHEST = 16, 4, 128
"A symbol is a name and a value, a question a name; between the symbols stands noise."
NOISE = NAMES * VALUES + NAMES
VOCABULARY = NOISE + 1
QUESTIONS, ROWS, TRIED = 4, 32, 256
ENOUGH = 0.8
"Share of the symbols that must be right."


def texts(n_rows: int, length: int, *, seed: int, back: int | None = None) -> tuple[Tensor, Tensor]:
    """Ids (B, length + questions) and answers, -1 for none; asked are any symbols, or the one so far back."""
    luck = torch.Generator().manual_seed(seed)
    n_symbols = min(NAMES, length)
    names = torch.rand((n_rows, NAMES), generator=luck).argsort(-1)[:, :n_symbols]  # each at most once
    values = torch.randint(VALUES, names.shape, generator=luck)
    order = torch.rand((n_rows, length), generator=luck)
    if back is not None:
        order[:, -back] = -1.0  # the first symbol stands there
    places = order.argsort(-1)[:, :n_symbols]
    chosen = torch.randint(n_symbols, (n_rows, QUESTIONS), generator=luck)
    if back is not None:
        chosen = torch.zeros((n_rows, 1), dtype=torch.long)
    text = torch.full((n_rows, length), NOISE).scatter(1, places, names * VALUES + values)
    ids = torch.cat([text, NAMES * VALUES + names.gather(1, chosen)], dim=1)
    return ids, torch.cat([torch.full_like(text, -1), values.gather(1, chosen)], dim=1)


def drawn(seed: int, step: int, longest: int) -> int:
    """A length from 1 to `longest`, its logarithm evenly spread."""
    luck = torch.Generator().manual_seed(seed_of(seed, step, 1))
    return int(math.exp(float(torch.rand((), generator=luck)) * math.log(longest + 1)))


@torch.inference_mode()
def accuracy(racer: Racer, back: int, *, seed: int) -> float:
    ids, answers = texts(TRIED, FARTHEST, seed=seed_of(seed, -back), back=back)
    return float((racer.output(ids).logits[:, -1].argmax(-1) == answers[:, -1]).float().mean())


def ask(setting: Setting) -> Iterator[Row]:
    size = replace(setting.size, vocab_size=VOCABULARY)

    def batch(racer: Racer, step: int) -> Any:
        ids, answers = texts(ROWS, drawn(setting.seed, step, FARTHEST), seed=seed_of(setting.seed, step))
        return racer.batch(ids, answers, QUESTIONS)

    pupils = [Pupil(f"copy, {name}", Racer(name, config_of(name, size), setting.seed), batch) for name in RACERS]
    went_on = practise(pupils, setting, setting.until - 0.1 * setting.left)
    for pupil in pupils:
        racer, distances = pupil.racer, [2**i for i in range(int(math.log2(FARTHEST)) + 1)]
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
    said = (
        f"Farthest, {far} tokens back with {ENOUGH:.0%} right: {best}."
        if far
        else f"None copies the last token yet{LONGER}."
    )
    says = [f"{said} Chance is {100 / VALUES:g} %."]
    series = {row["racer"]: [100 * share for share in row["found"].values()] for row in rows}
    title, xs = f"One of {NAMES} symbols, so many tokens back and asked for by name: % right", list(rows[0]["found"])
    return [
        Sheet("copy", title, table, says, frozenset({"cpu s"}), range(len(xs)), series, "distance, as a power of 2")
    ]


COPY = Question("copy", 5.0, ask, answer)
