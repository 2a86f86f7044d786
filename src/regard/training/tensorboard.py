"""The run's curves for TensorBoard, beside its log, where that package is installed (extra [log])."""

import contextlib
from pathlib import Path
from typing import Any

FLUSH_SECONDS = 20
"What a killed process may lose; the log itself loses nothing."
SCALARS = {"step": ("loss", "lr", "tokens_per_second"), "valid": ("loss",)}
"Event -> which of its numbers are drawn, beside those that it calls its scores."
NAMES = {"step": "train", "valid": "valid"}


class TensorBoard:
    """A listener. Without the package it does nothing; no trouble of the disk ever stops the training."""

    def __init__(self, folder: Path, step: int) -> None:
        """`step` is how far the run has come: what an earlier sitting drew beyond it is withdrawn."""
        self.writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        with contextlib.suppress(OSError):
            self.writer = SummaryWriter(str(folder), purge_step=step + 1, flush_secs=FLUSH_SECONDS)

    def __call__(self, kind: str, **values: Any) -> None:
        if self.writer is None:
            return
        try:
            for name in (*SCALARS.get(kind, ()), *values.get("scores", ())):
                if name in values:
                    self.writer.add_scalar(f"{NAMES[kind]}/{name}", values[name], values["step"])
        except OSError:
            self.writer = None

    def close(self) -> None:
        writer, self.writer = self.writer, None
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close()
