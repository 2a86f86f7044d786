"""Routes in the shape of LibreTranslate's: what its clients on the desktop and in editors speak."""

from typing import Any

from regard.errors import UserError
from regard.studio import fields
from regard.studio.engine import Job
from regard.studio.models import Entry
from regard.studio.problem import Problem
from regard.studio.routes import MODEL, Asked, House, Route

LANGUAGE = fields.text(20, least=1)
FIELDS = {
    "q": fields.either(fields.many(fields.text(), 64, least=1), fields.text()),
    "source": LANGUAGE,
    "target": LANGUAGE,
    "format": fields.choice("text", default="text"),
    "alternatives": fields.whole(0, 8, default=0),
    "api_key": fields.optional(fields.text(200)),
    "model": MODEL,
}
NAMES = {"pt": "Portuguese", "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian"}


def translate(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    outline = entry.outline.result()
    for side in ("source", "target"):
        known = outline[side]
        if known is not None and asked[side] not in (known, "auto" if side == "source" else known):
            hint = f"{entry.name} translates {outline['source']} to {outline['target']}"
            raise Problem(400, f"{asked[side][:20]} is not supported", hint=hint, param=side, code="language")
    texts = asked["q"] if isinstance(asked["q"], list) else [asked["q"]]
    if sum(map(len, texts)) > fields.MAX_TEXT:
        raise UserError(f"more than {fields.MAX_TEXT:,} characters at once", "send fewer")
    task = entry.task("translate")
    n_best, found = 1 + asked["alternatives"], []
    for text in texts:
        beam = max(4, n_best)
        found.append(task(text, beam=beam, n_best=n_best, split=True, seen=lambda ids, totals: job.check()))
    job.count(sum(each.n_tokens for each in found))
    answers = [each.text for each in found]
    others = [[other.text for other in each.alternatives] for each in found]
    whole = isinstance(asked["q"], list)
    result: dict[str, Any] = {"translatedText": answers if whole else answers[0]}
    return result | ({"alternatives": others if whole else others[0]} if asked["alternatives"] else {})


def speaks(asked: Asked, outline: dict[str, Any]) -> bool:
    return outline["target"] == asked["target"] and asked["source"] in ("auto", outline["source"])


def languages(house: House, asked: Asked, _path: dict[str, str]) -> list[dict[str, Any]]:
    pairs: dict[str, list[str]] = {}
    for entry in house.table.entries.values():
        known = entry.outline.result() if "translate" in entry.verbs else {}
        if known.get("source"):
            pairs.setdefault(known["source"], []).append(known["target"])
    targets = {target for each in pairs.values() for target in each}
    codes = [*pairs, *sorted(targets - pairs.keys())]
    return [{"code": code, "name": NAMES.get(code, code), "targets": pairs.get(code, [])} for code in codes]


ROUTES = [
    Route("/translate", FIELDS, "Translate, as LibreTranslate does", translate, "translate", speaks),
    Route("/languages", {}, "Languages, as LibreTranslate names them", direct=languages, method="GET"),
]
