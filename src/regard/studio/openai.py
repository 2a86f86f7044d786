"""Routes in the shape of OpenAI's, so that their clients write with the models here.

Taken are the fields that are heeded, and those that change nothing; a field that would change the text otherwise than
here is possible is refused, never passed over in silence.
"""

import base64
import secrets
import time
from typing import Any

import numpy as np

from regard.errors import UserError
from regard.studio import fields
from regard.studio.engine import Job
from regard.studio.generating import MAX_NEW, MAX_STOP, sampling_of
from regard.studio.models import Entry
from regard.studio.problem import encoded
from regard.studio.routes import MODEL, Asked, House, Route
from regard.studio.writing import Row, Text

STOP = fields.text(100, least=1)
PART = fields.record({"type": fields.choice("text"), "text": fields.text()})
MESSAGE = fields.record(
    {
        "role": fields.choice("system", "developer", "user", "assistant"),
        "content": fields.either(fields.many(PART, 20), fields.text()),
        "name": fields.optional(fields.text(64)),
    }
)
ONE = fields.whole(1, 1, default=None)
ZERO = fields.number(0, 0, default=None)
SHARED: dict[str, fields.Field] = {
    "model": MODEL,
    "temperature": fields.number(0, 2, default=None),
    "top_p": fields.number(0, 1, above=True, default=None),
    "top_k": fields.whole(1, 1_000_000, default=None),
    "seed": fields.whole(-(1 << 62), 1 << 62, default=None),
    "stop": fields.either(fields.many(STOP, MAX_STOP), STOP, default=None),
    "stream": fields.flag(False),
    "stream_options": fields.record({"include_usage": fields.flag(False)}, default=None),
    "n": ONE,
    "user": fields.optional(fields.text(200)),
    "presence_penalty": ZERO,
    "frequency_penalty": ZERO,
}
CHAT = {
    **SHARED,
    "messages": fields.many(MESSAGE, 100, least=1),
    "max_tokens": fields.whole(1, MAX_NEW, default=None),
    "max_completion_tokens": fields.whole(1, MAX_NEW, default=None),
    "logprobs": fields.flag(False),
    "top_logprobs": fields.whole(0, 20, default=None),
}
COMPLETION = {
    **SHARED,
    "prompt": fields.either(fields.many(fields.text(), 1, least=1), fields.text()),
    "max_tokens": fields.whole(1, MAX_NEW, default=16),
    "logprobs": fields.whole(0, 20, default=None),
    "echo": fields.flag(False),
    "best_of": ONE,
}
EMBEDDING = {
    "model": MODEL,
    "input": fields.either(fields.many(fields.text(least=1), 64, least=1), fields.text(least=1)),
    "encoding_format": fields.choice("float", "base64", default="float"),
    "dimensions": fields.whole(1, 65536, default=None),
    "user": fields.optional(fields.text(200)),
}
REASONS = {"end": "stop", "stop": "stop", "limit": "length"}


def chunk(name: str, value: Any) -> bytes:
    """An event of theirs has no name; what ends it is said by `[DONE]`."""
    return b"" if name == "done" else b"data: %s\n\n" % encoded(value)


class Answer:
    """What both shapes share: the text, the tokens with their numbers, and the head of each object."""

    def __init__(self, entry: Entry, asked: Asked, job: Job, *, chat: bool) -> None:
        self.asked, self.job, self.chat = asked, job, chat
        stop = asked["stop"] or []
        luck = sampling_of({"seed": 0, **asked}) if asked["temperature"] != 0 else None
        n_top = asked["top_logprobs"] or 0 if chat else asked["logprobs"]
        wanted = asked["logprobs"] if chat else asked["logprobs"] is not None
        self.numbers = bool(wanted)
        task = entry.task("generate")
        self.text = Text(task, job, luck, [stop] if isinstance(stop, str) else stop, n_top if wanted else None)
        self.text.shown, self.text.ended, self.text.begun = self.shown, self.ended, self.begun
        self.rows: list[Row] = []
        kind = "chat.completion" if chat else "text_completion"
        kind += ".chunk" if chat and asked["stream"] else ""
        self.head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12),
            "object": kind,
            "created": int(time.time()),
            "model": entry.name,
        }

    def begun(self) -> None:
        if self.asked["stream"] and self.chat:
            self.tell({"delta": {"role": "assistant", "content": ""}})
        if self.asked["stream"] and self.asked.get("echo"):
            self.tell({"text": self.asked["prompt"]})

    def tell(self, part: dict[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, **part, "finish_reason": reason}
        self.job.tell("chunk", {**self.head, "choices": [choice]})

    def shown(self, row: Row) -> None:
        self.rows.append(row)
        if self.asked["stream"]:
            self.tell(self.piece(row["piece"], [row]))

    def piece(self, text: str, rows: list[Row]) -> dict[str, Any]:
        found: dict[str, Any] = {"delta": {"content": text}} if self.chat else {"text": text}
        if self.numbers:
            found["logprobs"] = chat_numbers(rows) if self.chat else plain_numbers(rows)
        return found

    def ended(self) -> None:
        found = self.text.draft.generation()
        self.job.count(len(found.ids))
        n_prompt, n_new = len(self.text.prompt), len(found.ids)
        usage = {"prompt_tokens": n_prompt, "completion_tokens": n_new, "total_tokens": n_prompt + n_new}
        reason = REASONS[found.reason]
        if self.asked["stream"]:
            self.tell({"delta": {"content": self.text.tail}} if self.chat else {"text": self.text.tail}, reason)
            if (self.asked["stream_options"] or {}).get("include_usage"):
                self.job.tell("chunk", {**self.head, "choices": [], "usage": usage})
            self.job.finish(None)
            return
        choice = {"index": 0, **self.whole(found.text), "finish_reason": reason}
        self.job.finish(encoded({**self.head, "choices": [choice], "usage": usage}))

    def whole(self, text: str) -> dict[str, Any]:
        text = self.asked["prompt"] + text if self.asked.get("echo") else text
        numbers = (chat_numbers if self.chat else plain_numbers)(self.rows) if self.numbers else None
        if self.chat:
            return {"message": {"role": "assistant", "content": text}, "logprobs": numbers}
        return {"text": text, "logprobs": numbers}


def chat_numbers(rows: list[Row]) -> dict[str, Any]:
    def one(row: Row) -> dict[str, Any]:
        return {"token": row["text"], "logprob": row["log"], "bytes": list(row["text"].encode("utf-8", "replace"))}

    return {"content": [{**one(row), "top_logprobs": [one(each) for each in row["top"]]} for row in rows]}


def plain_numbers(rows: list[Row]) -> dict[str, Any]:
    offsets, at = [], 0
    for row in rows:
        offsets.append(at)
        at += len(row["piece"])
    return {
        "tokens": [row["text"] for row in rows],
        "token_logprobs": [row["log"] for row in rows],
        "top_logprobs": [{each["text"]: each["log"] for each in row["top"]} for row in rows],
        "text_offset": offsets,
    }


def chat(entry: Entry, asked: Asked, job: Job) -> object:
    messages = [{"role": _role(each["role"]), "content": _content(each["content"])} for each in asked["messages"]]
    limit = asked["max_completion_tokens"] or asked["max_tokens"]
    if entry.task("generate").tokenizer.chat_template is None:
        raise UserError(f"{entry.name} has no chat template", "use /v1/completions")
    return Answer(entry, asked, job, chat=True).text.begin(entry.engine, messages, limit=limit, forced=(), raw=False)


def _role(role: str) -> str:
    return "system" if role == "developer" else role


def _content(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def complete(entry: Entry, asked: Asked, job: Job) -> object:
    prompt = asked["prompt"] if isinstance(asked["prompt"], str) else asked["prompt"][0]
    answer = Answer(entry, {**asked, "prompt": prompt}, job, chat=False)
    return answer.text.begin(entry.engine, prompt, limit=asked["max_tokens"], forced=(), raw=True)


def embed(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    task = entry.task("embed")
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    if asked["dimensions"] not in (None, task.width):
        raise UserError(f"the vectors have {task.width} dimensions", "leave out dimensions")
    vectors = task(texts)
    data = [{"object": "embedding", "index": i, "embedding": _spelt(row, asked)} for i, row in enumerate(vectors)]
    n = sum(map(len, task.tokenizer.encode_ids(texts)))
    usage = {"prompt_tokens": n, "total_tokens": n}
    return {"object": "list", "data": data, "model": entry.name, "usage": usage}


def _spelt(row: Any, asked: Asked) -> str | list[float]:
    if asked["encoding_format"] == "float":
        found: list[float] = row.tolist()
        return found
    return base64.b64encode(np.ascontiguousarray(row, dtype="<f4").tobytes()).decode("ascii")


def models(house: House, asked: Asked, _path: dict[str, str]) -> dict[str, Any]:
    names = [entry.name for entry in house.table.entries.values() if {"generate", "embed"} & set(entry.verbs)]
    return {"object": "list", "data": [_model(name) for name in names]}


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "regard"}


DONE = b"data: [DONE]\n\n"
ROUTES = [
    Route("/v1/models", {}, "Models that write or embed", direct=models, method="GET"),
    Route("/v1/chat/completions", CHAT, "Answer in a chat", chat, "generate", render=chunk, last=DONE),
    Route("/v1/completions", COMPLETION, "Continue a text", complete, "generate", render=chunk, last=DONE),
    Route("/v1/embeddings", EMBEDDING, "Vectors of texts", embed, "embed"),
]
