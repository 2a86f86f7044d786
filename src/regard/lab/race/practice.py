"""Training racers by the ordinary step, side by side, so that at any moment all have had the same processor time.

Side by side and not one after the other: other programs come and go, and would be one racer's bad luck.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.lab.race.racers import Racer
from regard.lab.race.setting import Setting
from regard.training.schedule import rate
from regard.training.step import seed_of, step

RATE, WARMUP, CLIP = 3e-3, 50, 1.0
TURN = 0.3
"Seconds of the processor until it is the next one's turn."


class Pupil:
    """A racer in training; `batch(racer, n)` is what its step n learns from."""

    def __init__(self, name: str, racer: Racer, batch: Callable[[Racer, int], Any]) -> None:
        self.name, self.racer, self.batch = name, racer, batch
        weights = racer.model.parameters()
        self.optimizer = torch.optim.AdamW(weights, lr=RATE, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        self.seconds, self.losses = 0.0, list[float]()

    @property
    def steps(self) -> int:
        return len(self.losses)

    def learn(self, seed: int) -> None:
        began, now = time.process_time(), self.steps
        for group in self.optimizer.param_groups:
            group["lr"] = rate(now, kind="constant", peak=RATE, warmup=WARMUP, steps=now + 1)
        batch, seeds = self.batch(self.racer, now), [seed_of(seed, now)]
        result = step(self.racer.model, [batch], self.racer.objective, self.optimizer, clip=CLIP, seeds=seeds)
        self.losses.append(result.loss)
        self.seconds += time.process_time() - began


def practise(pupils: Sequence[Pupil], setting: Setting, until: float) -> bool:
    """Until each has had its steps, where the setting says how many, else until the clock says so; False for Ctrl-C."""
    for pupil in pupils:
        pupil.racer.model.train()
    try:
        _take_turns(pupils, setting, until)
    except KeyboardInterrupt:
        return False
    finally:
        for pupil in pupils:
            pupil.racer.model.eval()
            setting.done[pupil.name] = pupil.steps
    return True


def _take_turns(pupils: Sequence[Pupil], setting: Setting, until: float) -> None:
    turn, took = 0, 0.0
    wanted = {pupil.name: setting.steps_of(pupil.name) for pupil in pupils}
    while True:
        open_ = [pupil for pupil in pupils if pupil.steps < (wanted[pupil.name] or sys.maxsize)]
        by_clock = any(steps is None for steps in wanted.values())
        began, turn = time.monotonic(), turn + 1
        if not open_ or (by_clock and turn > 1 and began + took > until):  # no turn is begun that cannot be ended
            return
        for pupil in open_:
            setting.told(f"{pupil.name}: step {pupil.steps:,}")
            while pupil.seconds < turn * TURN and pupil.steps < (wanted[pupil.name] or sys.maxsize):
                pupil.learn(setting.seed)
        took = time.monotonic() - began
