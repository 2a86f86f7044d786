"""Why each part is there: the square root, several heads, the residual and the norm, each with and without."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.lab.race.practice import Pupil, practise
from regard.lab.race.racers import TRANSFORMER, Racer, config_of
from regard.lab.race.setting import LONGER, Question, Setting
from regard.lab.race.sheet import Row, Sheet
from regard.layers.attention import MultiHeadAttention, readable
from regard.layers.mask import Mask
from regard.layers.residual import Residual
from regard.models.base import initialise
from regard.training.step import seed_of

D_MODEL, LENGTH = 512, 64
VALUES, BACK = 4, (1, 3)
"Each token is one of four; asked is which two stood so many places before."
ROWS, TEXT, DEPTH, TRIED = 16, 24, 6, 256
LUCKY, TOO_SHORT = 1.5, f"None is clearly better than chance yet{LONGER}."
"So many times chance is not called learnt."


# ---- the square root


def entropy(weights: Tensor) -> float:
    """Mean over queries, in nats: log n if all n keys count alike, 0 if one counts alone."""
    return float(torch.special.entr(weights).sum(-1).mean())


@torch.inference_mode()
def ask_entropy(setting: Setting) -> Iterator[Row]:
    """Of fresh attention over vectors of variance 1, as a norm makes them."""
    for d_head in (8, 32, 128, 512):
        setting.told(f"entropy of attention: heads of width {d_head}")
        row: Row = {"width of a head": d_head, "heads": D_MODEL // d_head}
        for name, scaled in (("with root", True), ("without", False)):
            torch.manual_seed(setting.seed)
            attention = MultiHeadAttention(D_MODEL, D_MODEL // d_head, scaled=scaled)
            initialise(attention, "xavier")
            q, k, v = attention.project(torch.randn(8, LENGTH, D_MODEL))
            _, weights = readable(q, k, v, Mask(), scale=attention.scale)
            row |= {name: entropy(weights), f"largest %, {name}": 100 * float(weights.amax(-1).mean())}
        yield row


def answer_entropy(rows: list[Row], setting: Setting) -> list[Sheet]:
    last = rows[-1]
    says = [
        f"Evenly spread is log {LENGTH} = {math.log(LENGTH):.3f} nats. A head of {last['width of a head']} starts with "
        f"{last['with root']:.2f} with the square root and {last['without']:.2f} without:",
        "the scores of a wide head are large, one key gets nearly all, and hardly a gradient reaches the others.",
    ]
    title = f"Entropy of attention over {LENGTH} keys before training, d_model {D_MODEL}"
    xs, names = [row["width of a head"] for row in rows], ("with root", "without")
    series = {name: [row[name] for row in rows] for name in names}
    return [Sheet("entropy", title, rows, says, frozenset(), range(len(xs)), series, "heads of width 8, 32, 128, 512")]


# ---- heads, residual and norm: each by training


def look_back(n_rows: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Ids (B, T), and at each of them both values from before as one number; -1 where there are none yet."""
    ids = torch.randint(VALUES, (n_rows, TEXT), generator=torch.Generator().manual_seed(seed))
    near, far = (ids.roll(back, dims=1) for back in BACK)
    answers = near * VALUES + far
    answers[:, : max(BACK)] = -1
    return ids, answers


class Bare(nn.Module):
    """A sub-layer without the way around it; stands where a `Residual` would."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return sublayer(self.norm(x))


def take_out(racer: Racer, *, residual: bool, norm: bool) -> None:
    """Replace these parts in a fresh Transformer by nothing."""
    decoder = racer.model.decoder
    for block in decoder.blocks:
        for name in ("attn_residual", "ffn_residual"):
            own = nn.Identity() if norm else getattr(block, name).norm
            setattr(block, name, Bare(own) if residual else Residual(own, "pre", 0.0))
    if norm:
        decoder.norm = None


def train(racers: list[Racer], setting: Setting) -> Iterator[Row]:
    def batch(racer: Racer, step: int) -> Any:
        return racer.batch(*look_back(ROWS, seed=seed_of(setting.seed, step)), 1)

    pupils = [Pupil(racer.name, racer, batch) for racer in racers]
    went_on = practise(pupils, setting, setting.until)
    ids, answers = look_back(TRIED, seed=seed_of(setting.seed, -1))
    for pupil in pupils:
        with torch.inference_mode():
            right = (pupil.racer.output(ids).logits.argmax(-1) == answers)[answers >= 0].float().mean()
        losses = [loss if math.isfinite(loss) else None for loss in pupil.losses]
        if losses:
            ends = {"first loss": losses[0], "last loss": losses[-1], "right %": 100 * float(right)}
            yield {"": pupil.name, "steps": pupil.steps, "cpu s": pupil.seconds, **ends, "losses": losses}
    if not went_on:
        raise KeyboardInterrupt


def ask_heads(setting: Setting) -> Iterator[Row]:
    ways = {"1 head": 1, "8 heads": 8}
    racers = [
        Racer(name, config_of(TRANSFORMER, setting.size, n_heads=n_heads, n_layers=1), setting.seed)
        for name, n_heads in ways.items()
    ]
    yield from train(racers, setting)


def ask_around(setting: Setting) -> Iterator[Row]:
    ways = {"residual and norm": (False, False), "without norm": (False, True), "without residual": (True, False)}
    ways |= {"without either": (True, True)}
    racers = []
    for name, (residual, norm) in ways.items():
        racers.append(Racer(name, config_of(TRANSFORMER, setting.size, n_layers=DEPTH), setting.seed))
        take_out(racers[-1], residual=residual, norm=norm)
    yield from train(racers, setting)


def _trained_sheet(name: str, title: str, rows: list[Row]) -> list[Sheet]:
    table = [{key: value for key, value in row.items() if key != "losses"} for row in rows]
    best = max(rows, key=lambda row: row["right %"])
    chance = 100 / VALUES**2
    said = f"Best: {best['']}, {best['right %']:.0f} % right." if best["right %"] > LUCKY * chance else TOO_SHORT
    says = [f"{said} Chance is {chance:.0f} %, both together."]
    points = 50
    series = {row[""]: _thinned(row["losses"], points) for row in rows}
    axis = "loss over the training, from its start to its end"
    return [Sheet(name, title, table, says, frozenset({"cpu s"}), range(points), series, axis)]


def _thinned(losses: list[float | None], points: int) -> list[float]:
    """As many points whatever the number of steps, each a mean."""
    means = []
    for i in range(points):
        first = i * len(losses) // points
        part = losses[first : max(first + 1, (i + 1) * len(losses) // points)]
        real = [loss for loss in part if loss is not None]
        means.append(sum(real) / len(real) if real else math.nan)
    return means


def answer_heads(rows: list[Row], setting: Setting) -> list[Sheet]:
    what = f"{BACK[0]} and {BACK[1]} places before"
    return _trained_sheet("heads", f"One block, width {setting.size.width}: say which two values stood {what}", rows)


def answer_around(rows: list[Row], setting: Setting) -> list[Sheet]:
    return _trained_sheet("around", f"The same with {DEPTH} blocks, with and without residual and norm", rows)


ENTROPY = Question("entropy", 0.3, ask_entropy, answer_entropy)
HEADS = Question("heads", 2.0, ask_heads, answer_heads)
AROUND = Question("around", 4.0, ask_around, answer_around)
