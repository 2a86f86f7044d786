"""The other tasks: fill, classify, answer, tag, embed; and how a tokenizer splits."""

from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import UserError
from regard.inspection.capture import packed
from regard.inspection.reading import Reading, read_text, tokens_of
from regard.inspection.saliency import Method, saliency
from regard.studio import fields
from regard.studio.engine import Job
from regard.studio.looking import reads_texts
from regard.studio.models import Entry
from regard.studio.routes import MODEL, Asked, Route
from regard.tasks.zero_shot import zero_shot
from regard.text.explain import explain, readable

MAX_TEXTS, MAX_TOP = 64, 50
MAX_STEPS = 1000
"Characters of a text whose splitting is replayed: what there is to show grows with the square of a word."
TEXT, PAIR = fields.text(least=1), fields.optional(fields.text())
WORD = fields.text(100, least=1)


def fill(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    found = entry.task("fill")(asked["text"], top=asked["top"], targets=asked["targets"])
    gaps = [
        [{"token": each.token, "id": each.id, "p": each.score, "text": each.text} for each in gap] for gap in found.gaps
    ]
    return {"model": entry.name, "text": found.text, "score": found.score, "gaps": gaps}


def classify(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    text, pair = asked["text"], asked["pair"]
    if asked["labels"] is None:
        task = entry.task("classify")
        found = task([text if pair is None else (text, pair)])[0]
    else:  # a language model judges by labels that it was not trained for
        task = entry.task("generate")
        found = zero_shot(task, text, asked["labels"])
    why = None
    if asked["saliency"] is not None:
        job.check()
        reading = read_text(task.model, task.tokenizer, text, pair)
        _fits(reading)
        why = saliency(reading, asked["label"], method=asked["saliency"], steps=asked["steps"]).to_dict()
    labels = [{"name": name, "p": score} for name, score in found.best()]
    return {"model": entry.name, "problem": found.problem, "label": str(found), "labels": labels, "saliency": why}


def _fits(reading: Reading) -> None:
    side, most = reading.source or reading.target, reading.model.config.max_len
    if side is not None and len(side) > most:
        raise UserError(f"the text has {len(side)} tokens, the model takes {most}", "give a part of it")


def answer(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    task = entry.task("answer")
    names = ("top", "max_tokens", "no_answer", "threshold")
    found = task(asked["question"], asked["context"], **{name: asked[name] for name in names})
    answers = [
        {"text": each.text, "start": each.start, "end": each.end, "p": each.score}
        for each in (found, *found.alternatives)
    ]
    reading = read_text(task.model, task.tokenizer, asked["question"], asked["context"])
    assert reading.source is not None
    places = None if len(reading.source) > task.max_len else _places(reading, task, asked)
    return {"model": entry.name, "answers": answers, "places": places}


@torch.inference_mode()
def _places(reading: Reading, task: Any, asked: Asked) -> dict[str, Any]:
    """How likely an answer begins and ends at each token, where one window holds all."""
    assert reading.source is not None
    scores = reading.run().heads["span"][0].float().softmax(0)  # (T, 2)
    parts = task.tokenizer.encode(asked["question"], asked["context"]).parts
    tokens = [{**row, "part": part} for row, part in zip(reading.source.to_dict(), parts, strict=True)]
    return {"tokens": tokens, "start": scores[:, 0].tolist(), "end": scores[:, 1].tolist()}


def tag(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    task = entry.task("tag")
    loose, strict = task(asked["text"]), task(asked["text"], strict=True)
    found = strict if asked["strict"] else loose
    changed = [i for i, (a, b) in enumerate(zip(loose.words, strict.words, strict=True)) if a.tag != b.tag]
    rows = found.to_dict()
    entities, words = ([_p(row) for row in rows[name]] for name in ("entities", "words"))
    head = {"model": entry.name, "text": found.text, "labels": list(task.labels)}
    return {**head, "entities": entities, "words": words, "repaired": changed}


def _p(row: dict[str, Any]) -> dict[str, Any]:
    return {("p" if name == "score" else name): value for name, value in row.items()}


def embed(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    vectors = entry.task("embed")(asked["texts"])
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    plane, kept = on_plane(vectors)
    numbers = {"cosine": (unit @ unit.T).round(6).tolist(), "plane": plane.round(6).tolist(), "kept": kept}
    return {"model": entry.name, "vectors": packed(torch.from_numpy(vectors)), **numbers}


def on_plane(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
    """(n, 2) the two directions in which they differ most, and the share of all difference that these show."""
    centred = vectors.astype(np.float64) - vectors.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(vectors), 2))
    plane[:, : min(2, len(s))] = (u * s)[:, :2]
    signs = np.sign(plane[np.abs(plane).argmax(0), [0, 1]])  # a direction may point either way: the largest is positive
    total = float((s**2).sum())
    return plane * np.where(signs == 0, 1, signs), float((s[:2] ** 2).sum()) / total if total > 0 else 1.0


def tokenize(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    task = entry.made_for("texts")
    tokenizer = getattr(task, "target", task.tokenizer) if asked["side"] == "target" else task.tokenizer
    text, pair = asked["text"], asked["pair"]
    encoding, named = tokenizer.encode(text, pair), tokens_of(tokenizer, text, pair)
    spelt = [readable(tokenizer, token) for token in encoding.tokens]
    rows = zip(encoding.ids, spelt, named.names, named.special, encoding.offsets, encoding.parts, strict=True)
    names = ("id", "token", "text", "special", "span", "part")
    tokens = [
        {"i": i, **dict(zip(names, row, strict=True)), "token": readable(tokenizer, row[1])}
        for i, row in enumerate(rows)
    ]
    found = {"tokens": tokens, "n_chars": len(text), "n_bytes": len(text.encode()), "algorithm": None, "words": []}
    if asked["steps"] and len(text) > MAX_STEPS:
        found["note"] = f"the steps are shown of texts of up to {MAX_STEPS:,} characters"
    elif asked["steps"] and pair is None:
        try:
            steps = explain(tokenizer, text)
            found |= {"algorithm": steps.algorithm, "words": steps.to_dict()["words"]}
        except UserError as error:
            found["note"] = error.message
    return found


ROUTES = [
    Route(
        "/api/fill",
        {
            "model": MODEL,
            "text": TEXT,
            "top": fields.whole(1, MAX_TOP, default=10),
            "targets": fields.many(WORD, MAX_TOP, least=1, default=None),
        },
        "Words for the gaps of a text",
        fill,
        "fill",
    ),
    Route(
        "/api/classify",
        {
            "model": MODEL,
            "text": TEXT,
            "pair": PAIR,
            "labels": fields.many(WORD, 20, least=2, default=None),
            "saliency": fields.choice(*get_args(Method), default=None),
            "label": fields.optional(WORD),
            "steps": fields.whole(1, 128, default=32),
        },
        "Which label a text has, and which tokens decided it",
        classify,
        lambda asked: "classify" if asked["labels"] is None else "generate",
    ),
    Route(
        "/api/answer",
        {
            "model": MODEL,
            "question": fields.text(2000, least=1),
            "context": TEXT,
            "top": fields.whole(1, 20, default=3),
            "max_tokens": fields.whole(1, 200, default=30),
            "no_answer": fields.flag(False),
            "threshold": fields.number(-1000, 1000, default=0.0),
        },
        "The piece of a text that answers a question",
        answer,
        "answer",
    ),
    Route("/api/tag", {"model": MODEL, "text": TEXT, "strict": fields.flag(False)}, "Names in a text", tag, "tag"),
    Route(
        "/api/embed",
        {"model": MODEL, "texts": fields.many(TEXT, MAX_TEXTS, least=1)},
        "Vectors of texts, and how alike they are",
        embed,
        "embed",
    ),
    Route(
        "/api/tokenize",
        {
            "model": MODEL,
            "text": fields.text(),
            "pair": PAIR,
            "side": fields.choice("source", "target", default="source"),
            "steps": fields.flag(True),
        },
        "How a text is split, step by step",
        tokenize,
        suits=reads_texts,
    ),
]
