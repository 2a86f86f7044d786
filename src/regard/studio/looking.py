"""Look inside: what a model reads, read again with eyes open, on the thread that it works on."""

import math
from typing import Any, get_args

from torch import Tensor

from regard.errors import UserError
from regard.inspection.attention import stacked
from regard.inspection.capture import capture
from regard.inspection.reading import Kind, Reading, read_text, read_translation
from regard.studio import fields
from regard.studio.engine import Job
from regard.studio.models import Entry
from regard.studio.routes import MODEL, Asked
from regard.tasks.translator import Translator

MOST_BYTES, KEPT_BYTES = 1 << 29, 1 << 28
"Of the weights of all heads of one text: what is computed at all, and what is kept for the next head."
READING = {
    "model": MODEL,
    "text": fields.text(least=1),
    "pair": fields.optional(fields.text()),
    "ids": fields.ids(1024),
    "kind": fields.choice(*get_args(Kind), default=None),
}
"What names a reading."
LAYER = fields.whole(0, 1000, default=None)


def reads_texts(asked: Asked, outline: dict[str, Any]) -> bool:
    """Of several models, those that see pictures are not asked about texts."""
    return outline["image"] is None


def reading_of(entry: Entry, asked: Asked, job: Job) -> Reading:
    """The last one is kept: whoever looks, looks again."""
    key = asked["text"], asked["pair"], tuple(asked["ids"] or ())
    if (kept := entry.cache.get("reading")) and kept[0] == key:
        found: Reading = kept[1]
        return found
    task = entry.made_for("texts")
    if isinstance(task, Translator):
        found = _translated(task, asked, job)
    else:
        if asked["ids"]:
            raise UserError("ids are for translations", "leave them out")
        found = read_text(task.model, task.tokenizer, asked["text"], asked["pair"])
        most = task.model.config.max_len
        side = found.source or found.target
        if side is not None and len(side) > most:
            raise UserError(f"the text has {len(side)} tokens, the model takes {most}", "give a part of it")
    entry.cache = {"reading": (key, found)} | {name: value for name, value in entry.cache.items() if name == "heads"}
    return found


def _translated(task: Translator, asked: Asked, job: Job) -> Reading:
    if asked["pair"] is not None:
        raise UserError("a translator reads one text", "leave out pair")
    if not asked["ids"]:
        if (count := task.pieces(asked["text"])) != 1:
            hint = "give one sentence, without empty lines"
            raise UserError(f"the text has {count} pieces; one is looked into", hint)
        found = task(asked["text"], n_best=1, seen=lambda ids, totals: job.check())
        return found.sentences[0].reading
    src_ids, ids = task.tokenizer.encode(asked["text"]).ids, asked["ids"]
    if max(ids) >= task.target.vocab_size:
        raise UserError(f"the token {max(ids)} does not exist", f"ids run from 0 to {task.target.vocab_size - 1}")
    for what, count in (("the text", len(src_ids)), ("the translation", len(ids))):
        if not 0 < count <= task.max_len:
            raise UserError(f"{what} has {count} tokens, the model takes 1 to {task.max_len}", "give a part of it")
    return read_translation(task.model, (task.tokenizer, task.target), asked["text"], src_ids, ids)


def kind_of(reading: Reading, asked: Asked) -> Kind:
    kind: Kind = asked["kind"] or (reading.kinds[-1] if reading.kinds else "encoder")
    reading.check(kind)
    return kind


def weights_of(entry: Entry, reading: Reading, kind: Kind, layer: int | None = None) -> tuple[Tensor, int | None]:
    """The heads of all layers (L, H, T, S), or of one where all are too many to keep; and where the layer is in it."""
    key = "weights", kind
    if key in entry.cache:
        return entry.cache[key], layer
    size = math.prod((reading.n_heads(kind), len(reading.queries(kind)), len(reading.keys(kind)), 4))
    n_layers = reading.n_layers(kind)
    if size * (n_layers if layer is None else 1) > MOST_BYTES:
        raise UserError(
            f"{len(reading.keys(kind)):,} tokens are too many to see all heads at once", "give a part of it"
        )
    if layer is not None and size * n_layers > KEPT_BYTES:
        return stacked(reading, kind, [layer]), 0
    found = stacked(reading, kind)
    kept = [each for each in entry.cache if each[0] == "weights"]
    if sum(entry.cache[each].nbytes for each in kept) + found.nbytes > KEPT_BYTES:
        for each in kept:
            del entry.cache[each]
    if found.nbytes <= KEPT_BYTES:
        entry.cache[key] = found
    return found, layer


def captured(
    entry: Entry, reading: Reading | None, asked: Asked, payload: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """With the ids of what was written, so that the same can be asked again."""
    request = {name: value for name, value in asked.items() if value is not None} | {"model": entry.name}
    if reading is not None and reading.written is not None:
        request["ids"] = list(reading.written.ids)
    return capture(reading, request, [payload], model=entry.task().model) | more
