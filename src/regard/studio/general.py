"""Which models there are, what they are made of, and whether the server is well."""

import json
from pathlib import Path
from typing import Any

from starlette.responses import PlainTextResponse, Response

from regard import __version__
from regard.inspection.capture import identity
from regard.studio import fields, generating, seeing, solving, translating
from regard.studio.engine import Job
from regard.studio.models import Entry
from regard.studio.problem import Problem
from regard.studio.routes import MODEL, Asked, House, Route

STALLED = 120.0
"Seconds without a sign of life after which a model's thread is not well."
CARDS, MAX_CARD = ("README.md", "MODEL_CARD.md"), 200_000
LIMITS = {
    "text": fields.MAX_TEXT,
    "beam": translating.MAX_BEAM,
    "max_new": generating.MAX_NEW,
    "top": generating.MAX_TOP,
    "texts": solving.MAX_TEXTS,
    "picture": seeing.MAX_PICTURE,
}


def models(house: House, asked: Asked, _path: dict[str, str]) -> dict[str, Any]:
    rows = [entry.to_dict() for entry in house.table.entries.values()]
    return {"version": __version__, "default": rows[0]["name"] if rows else None, "models": rows, "limits": LIMITS}


def load(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    entry.task()
    return entry.to_dict()


def card(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    task = entry.task()
    model, tokenizer = task.model, getattr(task, "tokenizer", None)
    parameters = [
        {"name": name, "shape": list(each.shape), "count": each.numel()} for name, each in model.named_parameters()
    ]
    vocabulary = None
    if tokenizer is not None:
        algorithm = json.loads(tokenizer.definition)["model"]["type"]
        vocabulary = {"size": tokenizer.vocab_size, "special": dict(tokenizer.special), "algorithm": algorithm}
    return {
        "name": entry.name,
        "summary": task.summary().to_dict(),
        "identity": identity(model),
        "parameters": parameters,
        "tokenizer": vocabulary,
        "text": _readme(entry.home),
    }


def _readme(home: Path | None) -> str | None:
    """What its makers say about it. The page shows it as text, never as HTML."""
    for name in CARDS:
        if home is not None and (home / name).is_file():
            with (home / name).open("rb") as file:
                return file.read(MAX_CARD).decode("utf-8", "replace")
    return None


def live(house: House, asked: Asked, _path: dict[str, str]) -> Response:
    return PlainTextResponse("alive\n")


def ready(house: House, asked: Asked, _path: dict[str, str]) -> Response:
    """Whether the first model is open and no thread is stuck; a server that is up but cannot serve says 503."""
    stuck = [entry.name for entry in house.table.entries.values() if entry.engine.stalled_for() > STALLED]
    if stuck:
        raise Problem(503, f"no sign of life from {', '.join(stuck)}", hint="start the server again", code="stalled")
    if not house.table.is_ready:
        raise Problem(503, "not ready", hint="a model is being opened, or the server is leaving", code="loading")
    return PlainTextResponse("ready\n")


def metrics(house: House, asked: Asked, _path: dict[str, str]) -> Response:
    text = house.metrics.text(house.table.entries.values())
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


ROUTES = [
    Route("/api/models", {}, "The models on offer", direct=models, method="GET"),
    Route("/api/load", {"model": MODEL}, "Open a model", load),
    Route("/api/card", {"model": MODEL}, "What a model is made of", card, method="GET"),
    Route("/livez", {}, "Whether the process lives", direct=live, method="GET"),
    Route("/readyz", {}, "Whether it can serve", direct=ready, method="GET"),
    Route("/metrics", {}, "Counts, in Prometheus' format", direct=metrics, method="GET"),
]
