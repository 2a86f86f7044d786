"""What a training step and a written token cost, in time and memory, as the text gets longer.

The lectures say that recurrence is linear and attention quadratic; the exponents say where that holds.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.lab.race.fit import Slope, exponent
from regard.lab.race.racers import KEPT, RACERS, RNN, Racer, config_of, held, tokens
from regard.lab.race.setting import Question, Setting
from regard.lab.race.sheet import Row, Sheet
from regard.machine import memory_limit_bytes
from regard.training.step import step

SHORTEST, MIDDLE = 128, 512
"Below the first one attention takes other ways than above; the second parts short texts from long ones."
ROUNDS, NEW = 5, 16
"A training step so many times, and so many tokens one by one after the text."
NEAR = 0.3
"How far an exponent may be from a whole number to be called by it."
WORDS = {0: "constant", 1: "linear", 2: "quadratic"}


def ask(setting: Setting) -> Iterator[Row]:
    took, kept = {name: [0.0] for name in (*RACERS, KEPT)}, dict.fromkeys((*RACERS, KEPT), 0)
    length, memory = SHORTEST, memory_limit_bytes() or 1 << 33
    measure(Racer(RNN, config_of(RNN, setting.size), setting.seed), length, setting)  # torch wakes up
    while length <= setting.longest:
        for name in took:  # twice the length may take four times the memory
            if expected(took[name]) <= setting.left and 4 * kept[name] < memory // 4:
                setting.told(f"{name}: {length:,} tokens")
                began = time.monotonic()
                row = measure(Racer(name, config_of(name, setting.size), setting.seed), length, setting)
                took[name].append(time.monotonic() - began)
                kept[name] = row["kept"]
                yield row
        length *= 2


def expected(took: Sequence[float]) -> float:
    """Seconds at twice the length: they grow as they grew, but by two at least and five at most."""
    growth = took[-1] / took[-2] if len(took) > 2 else 5.0
    return took[-1] * min(max(growth, 2.0), 5.0)


def measure(racer: Racer, length: int, setting: Setting) -> Row:
    ids = tokens(1, length, setting.size, seed=setting.seed)
    batch = racer.batch(ids, ids.roll(-1, dims=1), length // 2)
    optimizer = torch.optim.AdamW(racer.model.parameters(), lr=0.0, fused=True)

    def learn() -> None:
        step(racer.model, [batch], racer.objective, optimizer, clip=1.0, seeds=[0])

    kept = kept_bytes(racer.model, learn)  # the first one also warms up
    training = [timed(learn) for _ in range(ROUNDS if length <= MIDDLE else 3)]
    racer.model.eval()
    with torch.inference_mode():
        state = racer.after(ids, NEW + 1)
        token = ids[:, :1]
        racer.model.step(token, state)
        writing = [timed(lambda: racer.model.step(token, state)) for _ in range(NEW)]
    return {
        "racer": racer.name, "tokens": length, "training": training, "kept": kept,
        "writing": writing, "state": held(state, getattr(racer.config, "window", None)),
    }  # fmt: skip


def timed(work: Callable[[], Any]) -> float:
    """Milliseconds of the processor: other programs at work do not count."""
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def kept_bytes(model: nn.Module, work: Callable[[], None]) -> int:
    """What a forward pass keeps for the backward pass, beside the weights: each piece of memory counted once."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    seen: dict[int, int] = {}
    alive = []  # else memory that is freed is used again, and would be taken for the same

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
            alive.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        work()
    return sum(seen.values())


def answer(rows: list[Row], setting: Setting) -> list[Sheet]:
    shape, longest = f"width {setting.size.width}, {setting.size.n_layers} layers", max(row["tokens"] for row in rows)
    short = [f"Texts of more than {longest:,} tokens did not fit into the time (--minutes)."]
    return [
        _sheet(
            rows,
            "training",
            f"Processor milliseconds of a training step, {shape}",
            1.0,
            is_time=True,
            more=short if longest < setting.longest else (),
        ),
        _sheet(rows, "kept", f"Megabytes that a training step keeps for the way back, {shape}", 1e-6, is_time=False),
        _sheet(rows, "writing", f"Processor milliseconds of one more token after so many, {shape}", 1.0, is_time=True),
        _sheet(rows, "state", f"Megabytes that the next token needs of those before it, {shape}", 1e-6, is_time=False),
    ]


def _sheet(rows: list[Row], what: str, title: str, unit: float, *, is_time: bool, more: Sequence[str] = ()) -> Sheet:
    lengths, found, says = sorted({row["tokens"] for row in rows}), [], list(more)
    series: dict[str, list[float]] = {}
    for name in dict.fromkeys(row["racer"] for row in rows):
        measured = {row["tokens"]: _several(row[what]) for row in rows if row["racer"] == name}
        middles = {n: unit * sorted(values)[len(values) // 2] for n, values in measured.items()}
        series[name] = [middles.get(n, float("nan")) for n in lengths]
        ends = {f"power to {MIDDLE}": (0, MIDDLE), f"from {MIDDLE}": (MIDDLE, max(lengths))}
        ends["last doubling"] = (max(measured) // 2, max(measured))
        powers = {key: exponent(_part(measured, *each)) for key, each in ends.items()}
        cells = {f"{n:,}": middles.get(n) for n in lengths}
        found.append({"": name, **cells, **{key: _said(power, is_time) for key, power in powers.items()}})
        if (last := powers["last doubling"]) is not None:
            says.append(
                f"{name}: {verdict(last)} where it ends, from {max(measured) // 2:,} to {max(measured):,} tokens."
            )
    every = frozenset(found[0]) - {""} if is_time else frozenset[str]()
    return Sheet(what, title, found, says, every, lengths, series, "tokens", logarithmic=True)


def _several(value: Any) -> Sequence[float]:
    return value if isinstance(value, list) else [float(value)]


def _part(measured: Mapping[int, Sequence[float]], low: int, high: int) -> dict[float, Sequence[float]]:
    return {float(n): values for n, values in measured.items() if low <= n <= high}


def _said(found: Slope | None, is_time: bool) -> str | None:
    return None if found is None else str(found) if is_time else f"{found.value:.2f}"


def verdict(found: Slope) -> str:
    for power, word in WORDS.items():
        if abs(max(found.value, 0.0) - power) <= NEAR:
            return word
    if found.value > max(WORDS):
        return "steeper than quadratic"
    return "between " + " and ".join(word for power, word in WORDS.items() if abs(found.value - power) < 1)


COST = Question("cost", 3.0, ask, answer)
