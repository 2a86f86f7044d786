"""Pictures: what is on them, and at which patches the model looked."""

import hashlib
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.inspection.capture import capture, packed
from regard.inspection.reading import Kind, Reading
from regard.studio import fields
from regard.studio.attending import WEIGHTS, head_of
from regard.studio.engine import Job
from regard.studio.looking import weights_of
from regard.studio.models import Entry
from regard.studio.routes import MODEL, Asked, Route
from regard.studio.translating import MAX_BEAM
from regard.studio.wire import Bytes
from regard.tasks.captioner import Captioner
from regard.tasks.recogniser import look_at

MAX_PICTURE = 6_000_000
"Bytes of a picture's file; how many pixels it may hold is seen from its head (data/view.py)."
MAX_LABELS = 50
KINDS: tuple[Kind, ...] = ("encoder", "cross")
"Those whose keys are patches."
PICTURE = {"model": MODEL, "picture": fields.data(MAX_PICTURE), "beam": fields.whole(1, MAX_BEAM, default=4)}


class Seen(NamedTuple):
    reading: Reading | None
    "None where the model has no attention."
    pixels: Tensor
    "(channels, height, width) as they entered the model."
    said: dict[str, Any]


def seen_by(entry: Entry, asked: Asked, job: Job) -> Seen:
    """The last one is kept: whoever looks at a picture looks at the next head."""
    key = hashlib.sha256(asked["picture"]).hexdigest(), asked["beam"]
    if (kept := entry.cache.get("picture")) and kept[0] == key:
        found: Seen = kept[1]
        return found
    task, picture = entry.made_for("pictures"), asked["picture"]
    if isinstance(task, Captioner):
        caption = task(picture, beam=asked["beam"])
        job.check()
        reading = task.reading(picture, caption)
        found = Seen(reading, _pixels(reading), _caption(caption, reading))
    else:
        result = task([picture])[0]
        job.check()
        labels = [{"name": name, "p": score} for name, score in result.best()]
        said = {"type": "labels", "label": str(result), "labels": labels[:MAX_LABELS], "n_labels": len(labels)}
        if set(KINDS) & set(entry.outline.result()["image"]["kinds"]):
            reading = task.reading(picture)
            found = Seen(reading, _pixels(reading), said)
        else:
            found = Seen(None, look_at([picture], task.view)[0], said)
    entry.cache = {"picture": (key, found)}
    return found


def _pixels(reading: Reading) -> Tensor:
    assert reading.pixels is not None
    return reading.pixels[0]


def _caption(caption: Any, reading: Reading) -> dict[str, Any]:
    assert reading.written is not None
    rows = zip(reading.written.to_dict(), caption.inside.log_probabilities, strict=True)
    tokens = [{**row, "p": math.exp(log)} for row, log in rows]
    others = [{"text": each.text, "score": each.score} for each in caption.alternatives]
    return {"type": "caption", "text": caption.text, "score": caption.score, "tokens": tokens, "alternatives": others}


def image(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    found = seen_by(entry, asked, job)
    view = entry.task().view
    mean, std = (torch.tensor(values)[:, None, None] for values in (view.mean, view.std))
    bytes_ = ((found.pixels * std + mean) * 255).round().clamp(0, 255)
    payloads = [{"type": "picture", "pixels": packed(bytes_, "u8")}, found.said]
    if found.reading is not None:
        payloads += [_patches(entry, found.reading, kind) for kind in KINDS if kind in found.reading.kinds]
    digest = hashlib.sha256(asked["picture"]).hexdigest()
    request = {"model": entry.name, "beam": asked["beam"], "picture_sha256": digest}
    return capture(found.reading, request, payloads, model=entry.task().model)


def _patches(entry: Entry, reading: Reading, kind: Kind) -> dict[str, Any]:
    """All heads as small pictures: where the class token looked, or all words of a caption together."""
    grid = reading.model.config.grid
    weights = weights_of(entry, reading, kind)[0]  # (L, H, T, S)
    rows = weights[:, :, 0] if kind == "encoder" else weights.mean(2)
    small = rows[..., -grid[0] * grid[1] :].unflatten(-1, grid)  # (L, H, rows, columns)
    shares = small / small.amax((-2, -1), keepdim=True).clamp_min(1e-12)
    leading = len(reading.keys(kind)) - grid[0] * grid[1]
    shape = {"n_layers": reading.n_layers(kind), "n_heads": reading.n_heads(kind), "grid": list(grid)}
    overview = packed((shares * 255).round(), "u8")
    return {"type": "patches", "kind": kind, "leading": leading, **shape, "weights": overview}


def image_head(entry: Entry, asked: Asked, job: Job) -> Bytes:
    found = seen_by(entry, asked, job)
    reading = found.reading or entry.task().reading(asked["picture"])  # which says why there is none
    return head_of(entry, reading, asked)


def sees(asked: Asked, outline: dict[str, Any]) -> bool:
    return outline["image"] is not None


ROUTES = [
    Route("/api/image", PICTURE, "What is on a picture, and its patches", image, suits=sees),
    Route(
        "/api/image/head",
        {**PICTURE, "kind": fields.choice(*KINDS, default=None), **WEIGHTS},
        "Where each patch or word looked on a picture, as little-endian f16",
        image_head,
        suits=sees,
        binary=True,
    ),
]
