"""Texts in windows through a model; windows alike in length go together, whichever text they are of."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.windows import Window
from regard.errors import UserError
from regard.models.base import Model
from regard.models.bert import HeadName
from regard.tasks.batching import batches, padded

BATCH_TOKENS = 2048
"Tokens, with padding, that go through the model at once."
FIRST_CHUNK, LAST_CHUNK = 8, 256
"Texts that are read before the first and before every later result."

Scores = NDArray[np.float32]


@torch.inference_mode()
def scores_of(
    model: Model,
    head: HeadName,
    texts: Sequence[Sequence[Window]],
    *,
    done: int = 0,
    heard: Callable[[int], None] | None = None,
) -> list[list[Scores]]:
    """For each window of each text the head's scores (T, n) for all its ids, as if it were alone.

    `done` texts came before these; `heard` is told meanwhile how many are done, those included.
    """
    places = [(text, number) for text, windows in enumerate(texts) for number in range(len(windows))]
    windows = [texts[text][number] for text, number in places]
    found: list[list[Scores]] = [[np.empty((0, 0), np.float32)] * len(each) for each in texts]
    n_read = 0
    for batch in batches([len(window.ids) for window in windows], BATCH_TOKENS):
        for i, scores in zip(batch, _run(model, head, [windows[i] for i in batch]), strict=True):
            text, number = places[i]
            found[text][number] = scores
            if not np.isfinite(scores).all():
                raise UserError(
                    f"text {done + text + 1}: the model's weights give no number (NaN or infinity)",
                    "the weights are damaged: get the model again; `regard convert --check-finite` names the tensors",
                )
        n_read += len(batch)
        if heard:
            heard(done + len(texts) * n_read // len(windows))
    return found


def _run(model: Model, head: HeadName, windows: Sequence[Window]) -> list[Scores]:
    ids, valid = padded([window.ids for window in windows], model.config.pad_id or 0, model.device)
    told = {}
    if getattr(model.config, "n_segments", 1) > 1:
        told["segments"], _ = padded([window.segments for window in windows], 0, model.device)
    scores = model(ids, valid, **told).heads[head].float().cpu().numpy()  # (B, T, n)
    return [row[: len(window.ids)] for row, window in zip(scores, windows, strict=True)]
