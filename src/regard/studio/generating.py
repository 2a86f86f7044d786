"""Generate: each token with those that might have been, and a way to take another."""

from typing import Any

from regard.decoding.sample import SampleSettings
from regard.errors import UserError
from regard.studio import fields
from regard.studio.engine import Job
from regard.studio.models import Entry
from regard.studio.problem import encoded
from regard.studio.routes import MODEL, Asked, Route
from regard.studio.writing import Row, Text, token_text

MAX_NEW, MAX_TOP, MAX_STOP = 1024, 50, 8
MESSAGE = fields.record({"role": fields.choice("system", "user", "assistant"), "content": fields.text()})
SAMPLING: dict[str, fields.Field] = {
    "temperature": fields.number(0, 10, default=None),
    "top_k": fields.whole(1, 1_000_000, default=None),
    "top_p": fields.number(0, 1, above=True, default=None),
    "seed": fields.whole(-(1 << 62), 1 << 62, default=0),
}
FIELDS = {
    "model": MODEL,
    "prompt": fields.optional(fields.text()),
    "messages": fields.many(MESSAGE, 100, least=1, default=None),
    "max_new": fields.whole(1, MAX_NEW, default=64),
    **SAMPLING,
    "stop": fields.many(fields.text(100, least=1), MAX_STOP, default=[]),
    "raw": fields.flag(False),
    "forced": fields.ids(MAX_NEW, default=[]),
    "top": fields.whole(0, MAX_TOP, default=10),
    "stream": fields.flag(False),
}


def sampling_of(asked: Asked) -> SampleSettings | None:
    """None, and so the likeliest, where nothing about luck is said."""
    given = {name: asked[name] for name in ("temperature", "top_k", "top_p") if asked.get(name) is not None}
    return SampleSettings(**given, seed=asked["seed"] or 0) if given else None


def generate(entry: Entry, asked: Asked, job: Job) -> object:
    task = entry.task("generate")
    if (asked["prompt"] is None) == (asked["messages"] is None):
        raise UserError("a prompt or messages are expected, and only one of them", "give one")
    text = Text(task, job, sampling_of(asked), asked["stop"], asked["top"])
    rows: list[Row] = []

    def shown(row: Row) -> None:
        rows.append(row)
        if asked["stream"]:
            job.tell("token", row)

    def ended() -> None:
        found = text.draft.generation()
        job.count(len(rows))
        usage = {"prompt_tokens": len(text.prompt), "completion_tokens": len(found.ids)}
        end = {"text": found.text, "ids": list(found.ids), "reason": found.reason, "seed": asked["seed"]}
        end["usage"] = usage
        job.finish(
            encoded(end if asked["stream"] else {"model": entry.name, **end, "prompt": prompt(), "tokens": rows})
        )

    def prompt() -> list[dict[str, Any]]:
        return [{"id": id, "text": token_text(task, id)} for id in text.prompt]

    text.shown, text.ended = shown, ended
    given = asked["prompt"] if asked["messages"] is None else asked["messages"]
    if asked["stream"]:
        text.begun = lambda: job.tell("start", {"prompt": prompt(), "seed": asked["seed"]})
    return text.begin(entry.engine, given, limit=asked["max_new"], forced=asked["forced"], raw=asked["raw"])


ROUTES = [Route("/api/generate", FIELDS, "Continue a text, token by token with its rivals", generate, "generate")]
