"""Who attends to whom: all heads as small pictures, one head in full, every number of a row; what silence changes."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from regard.errors import UserError
from regard.inspection.ablation import ablate
from regard.inspection.attention import overview, sides
from regard.inspection.explanation import explain
from regard.inspection.heads import PRONOUNS, HeadScores, choose, find_heads
from regard.inspection.lens import lens
from regard.inspection.masks import mask_of
from regard.inspection.positions import positions_of_model, sinusoidal
from regard.inspection.reading import Kind, Reading, read_text
from regard.inspection.rollout import rollout
from regard.studio import fields
from regard.studio.engine import Job
from regard.studio.looking import LAYER, READING, captured, kind_of, reading_of, reads_texts, weights_of
from regard.studio.models import Entry
from regard.studio.routes import MODEL, Asked, Route
from regard.studio.wire import Bytes
from regard.tasks.translator import Translator


def attention(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    reading = reading_of(entry, asked, job)
    kind = kind_of(reading, asked)
    found = overview(reading, kind, weights_of(entry, reading, kind)[0])
    kinds = {each: sides(reading, each) for each in reading.kinds}
    return captured(entry, reading, asked, found, kinds=kinds)


def head(entry: Entry, asked: Asked, job: Job) -> Bytes:
    return head_of(entry, reading_of(entry, asked, job), asked)


def head_of(entry: Entry, reading: Reading, asked: Asked) -> Bytes:
    kind, layer, number = kind_of(reading, asked), asked["layer"], asked["head"]
    if asked["how"] == "rollout":
        weights_of(entry, reading, kind)  # refuses what would not fit
        found = rollout(reading, kind, fusion=asked["fusion"], discard=asked["discard"])
    else:
        reading.check(kind, layer, number)
        weights, at = weights_of(entry, reading, kind, layer)
        chosen = weights if at is None else weights[at : at + 1]  # (L or 1, H, T, S)
        found = chosen.mean((0, 1)) if number is None else chosen[:, number].mean(0)
    array = np.ascontiguousarray(found.numpy().astype("<f2"))
    shape = ",".join(map(str, array.shape))
    headers = {"content-type": "application/octet-stream", "x-regard-shape": shape, "x-regard-dtype": "f16"}
    return Bytes(array.tobytes(), headers)


def explained(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    reading = reading_of(entry, asked, job)
    kind, layer, number = kind_of(reading, asked), asked["layer"], asked["head"]
    reading.check(kind, layer, number)
    query = _query(reading, kind, asked)
    if layer is None or number is None:
        weights_of(entry, reading, kind)  # refuses what would not fit
    chosen = choose(reading, kind, query, partial(_scores, entry, kind, job), layer=layer, head=number)
    job.check()
    found = explain(reading, kind, chosen.layer, chosen.head, query)
    judged = None if chosen.scores is None else chosen.scores.to_dict()["judged"]
    return captured(entry, reading, asked, found.to_dict(), why=chosen.why or None, judged=judged)


def _query(reading: Reading, kind: Kind, asked: Asked) -> int:
    """The one named, else a pronoun, else the last ordinary token."""
    tokens = reading.queries(kind)
    if asked["query"] is not None:
        if asked["query"] >= len(tokens):
            raise UserError(f"there is no token {asked['query']}", f"tokens are 0 to {len(tokens) - 1}")
        return int(asked["query"])
    if asked["token"] is not None:
        return tokens.find(asked["token"])[0]
    words = tokens.whole_words()
    pronouns = [tokens.words.index(word) for word, name in words.items() if name.casefold() in PRONOUNS]
    ordinary = [i for i, is_special in enumerate(tokens.special) if not is_special] or [0]
    return pronouns[0] if pronouns else ordinary[-1]


def heads(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    task = entry.made_for("texts")
    if isinstance(task, Translator) or not entry.verbs:
        raise UserError(
            "heads are found on English sentences that a model reads", "give an encoder or a language model"
        )
    kinds = entry.outline.result()["kinds"]
    if not kinds or asked["kind"] not in (None, *kinds):
        raise UserError("this model has no such attention", f"it has {', '.join(kinds) or 'none'}")
    kind = asked["kind"] or kinds[-1]
    return captured(entry, None, asked, _scores(entry, kind, job).to_dict())


def _scores(entry: Entry, kind: Kind, job: Job) -> HeadScores:
    kept: dict[Kind, HeadScores] = entry.cache.setdefault("heads", {})
    if kind not in kept:
        kept[kind] = find_heads(partial(_read, entry, job), kind)
    return kept[kind]


def _read(entry: Entry, job: Job, text: str) -> Reading:
    job.check()
    task = entry.task()
    return read_text(task.model, task.tokenizer, text)


def ablated(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    reading = reading_of(entry, asked, job)
    found = ablate(reading, kind_of(reading, asked), asked["layer"], asked["head"])
    return captured(entry, reading, asked, found.to_dict())


def lensed(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    reading = reading_of(entry, asked, job)
    return captured(entry, reading, asked, lens(reading).to_dict())


def positions(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    n, side, step = asked["n"], asked["side"], asked["step"]
    if asked["model"] is None:
        return captured(entry, None, asked, sinusoidal(n, asked["width"], step=step).to_dict()) | {"model": {}}
    found = positions_of_model(entry.made_for("texts").model, n, side=side, step=step)
    return captured(entry, None, asked, found.to_dict())


def masks(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    reading = reading_of(entry, asked, job)
    if asked["padding"]:
        reading = _padded(reading, asked["padding"])
    found = mask_of(reading, kind_of(reading, asked))
    return captured(entry, reading, {**asked, "ids": asked["ids"] or None}, found.to_dict())


def _padded(reading: Reading, more: int) -> Reading:
    """As a longer batch mate would make it; what was written has no padding of its own."""
    pad = reading.model.config.pad_id or 0
    both = (reading.source, reading.target)
    source, target = (None if side is None else side.padded(len(side) + more, pad) for side in both)
    most = reading.model.config.max_len
    if any(side is not None and len(side) > most for side in (source, target)):
        raise UserError(f"with padding there are more than the {most} tokens that the model takes", "ask for less")
    return replace(reading, source=source, target=target, written=None)


WEIGHTS = {
    "layer": LAYER,
    "head": LAYER,
    "how": fields.choice("weights", "rollout", default="weights"),
    "fusion": fields.choice("mean", "max", "min", default="mean"),
    "discard": fields.number(0, 0.99, default=0.0),
}
"Which of all weights."
_ROUTES = [
    Route("/api/attention", READING, "All heads of a text as small pictures", attention),
    Route(
        "/api/attention/head",
        {**READING, **WEIGHTS},
        "The weights of one head, or a mean, as little-endian f16",
        head,
        binary=True,
    ),
    Route(
        "/api/explain",
        {
            **READING,
            "layer": LAYER,
            "head": LAYER,
            "query": fields.whole(0, 4096, default=None),
            "token": fields.optional(fields.text(200, least=1)),
        },
        "Every number from a token's query to the output",
        explained,
    ),
    Route("/api/heads", {name: READING[name] for name in ("model", "kind")}, "Which head does what", heads),
    Route(
        "/api/ablate",
        {**READING, "layer": fields.whole(0, 1000), "head": LAYER},
        "What changes if a head or a layer keeps silent",
        ablated,
    ),
    Route("/api/lens", READING, "What each layer would say if it were the last", lensed),
    Route(
        "/api/positions",
        {
            "model": MODEL,
            "n": fields.whole(2, 512, default=64),
            "width": fields.whole(2, 512, default=64),
            "side": fields.choice("encoder", "decoder", default=None),
            "step": fields.whole(1, 64, default=1),
        },
        "How a model, or the paper, tells places apart",
        positions,
    ),
    Route(
        "/api/masks", {**READING, "padding": fields.whole(0, 64, default=0)}, "Which cells are closed, and why", masks
    ),
]
ROUTES = [replace(route, suits=reads_texts) for route in _ROUTES]
