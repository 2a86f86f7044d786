"""Progress on stderr: a live line on a terminal, a plain line every half minute elsewhere."""

import time
from typing import Any

from regard.cli.terminal import Screen, is_live, overwrite, tell

PLAIN_SECONDS = 30.0


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Line:
    """One line that is written over; where it cannot be, a new one now and then."""

    def __init__(self) -> None:
        self.live = is_live()
        self.shown_at = 0.0

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self.live:
            overwrite(text)
            Screen.said_at = now
        elif now - self.shown_at >= PLAIN_SECONDS:
            tell(text)
            self.shown_at = now

    def say(self, text: str) -> None:
        """A line that stays."""
        tell(text)


class TrainingLine(Line):
    """Listens to a run and tells a person about it."""

    def __call__(self, kind: str, **values: Any) -> None:
        if kind == "step":
            self.show(
                f"step {values['step']:,}/{values['of']:,}  epoch {values['epoch'] + 1}  loss {values['loss']:.3f}  "
                f"{values['tokens_per_second']:,.0f} {values['unit']}/s  {duration(values['seconds_left'])} left"
            )
        elif kind == "valid":
            scores = "  ".join(f"{name} {values[name]:.4g}" for name in values.get("scores", ()))
            self.say(f"step {values['step']:,}  valid loss {values['loss']:.3f}  {scores}{'  best' * values['best']}")
        elif kind == "bad step":
            rows = values["rows"][:5]
            self.say(f"step {values['step']:,} skipped: {values['layer']} is not a number (rows {rows} ...)")
        elif kind == "stage":
            self.say(values["text"])
        elif kind == "end":
            took = duration(values["seconds"])
            self.say(f"{values['how']} at step {values['step']:,} after {took}")
            self.say(f"energy: {values['energy']}\n  {values['beside']}")
