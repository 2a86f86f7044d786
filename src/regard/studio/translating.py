"""Translate: the words, how sure each was, the beam's tree, and where the decoder looked."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from regard.decoding.beam import Hypothesis
from regard.errors import UserError
from regard.inspection.attention import attention
from regard.inspection.capture import packed
from regard.studio import fields
from regard.studio.engine import Job
from regard.studio.models import Entry
from regard.studio.routes import MODEL, Asked, Route
from regard.tasks.translation import Translation
from regard.tasks.translator import Translator
from regard.text.words import token_name, words_written

MAX_BEAM, MAX_NEW = 16, 1024
Seen = Callable[[Tensor, Tensor], None]

FIELDS = {
    "model": MODEL,
    "text": fields.text(least=1),
    "beam": fields.whole(1, MAX_BEAM, default=4),
    "n_best": fields.whole(1, MAX_BEAM, default=None),
    "length_penalty": fields.number(-10, 10, default=1.0),
    "max_new": fields.whole(1, MAX_NEW, default=None),
    "prefix": fields.ids(MAX_NEW, default=[]),
    "tree": fields.flag(True),
    "split": fields.flag(False),
    "stream": fields.flag(False),
}


def translate(entry: Entry, asked: Asked, job: Job) -> dict[str, Any]:
    task: Translator = entry.task("translate")
    beam = asked["beam"]
    if asked["split"] and asked["prefix"]:
        raise UserError("a prefix is for one sentence", "leave out split or prefix")
    seen = _watch(task, asked, job)
    found = task(
        asked["text"],
        beam=beam,
        n_best=min(asked["n_best"] or beam, beam),
        length_penalty=asked["length_penalty"],
        max_new=asked["max_new"],
        tree=asked["tree"],
        prefix=asked["prefix"],
        split=asked["split"],
        seen=seen,
    )
    job.count(found.n_tokens)
    sentences = [sentence(task, each, asked, job) for each in found.sentences]
    head = {"model": entry.name, "source": found.source, "text": found.text, "note": found.note}
    return {**head, "sentences": sentences}


def _watch(task: Translator, asked: Asked, job: Job) -> Seen:
    def seen(ids: Tensor, totals: Tensor) -> None:
        job.check()
        if asked["stream"] and len(ids) == 1:
            job.tell("step", {"t": ids.size(-1), "beams": _beams(task, ids[0], totals[0], asked["length_penalty"])})

    return seen


def _beams(task: Translator, ids: Tensor, totals: Tensor, penalty: float) -> list[dict[str, Any]]:
    length = ids.size(-1)
    rows = [(row, total) for row, total in zip(ids.tolist(), totals.tolist(), strict=True) if total > -math.inf]
    return [
        {"ids": row, "text": task.target.decode(row).strip(), "total": total, "score": total / length**penalty}
        for row, total in rows
    ]


def sentence(task: Translator, found: Translation, asked: Asked, job: Job) -> dict[str, Any]:
    assert found.inside is not None
    inside, n_forced = found.inside, len(asked["prefix"])
    all_found = [found, *found.alternatives]
    hypotheses = [(each.text, each.inside.hypothesis) for each in all_found if each.inside is not None]
    greedy = _greedy(task, found, asked, job) if asked["tree"] else None
    reading, cross = found.reading, None
    if "cross" in reading.kinds:
        shape = {"n_layers": reading.n_layers("cross"), "n_heads": reading.n_heads("cross")}
        cross = {"kind": "cross", **shape, "weights": packed(attention(reading, "cross"))}
    assert reading.source is not None
    return {
        "source": {"text": inside.text, "tokens": reading.source.to_dict()},
        "hypotheses": [hypothesis(task, text, each, n_forced) for text, each in hypotheses],
        "greedy": None if greedy is None else hypothesis(task, *greedy, n_forced),
        "tree": None if greedy is None else _tree(found, greedy[1].ids),
        "cross": cross,
    }


def _greedy(task: Translator, found: Translation, asked: Asked, job: Job) -> tuple[str, Hypothesis]:
    """What a beam of one writes, to be shown in the same tree."""
    assert found.inside is not None
    if asked["beam"] == 1:
        return found.text, found.inside.hypothesis
    more = {"max_new": asked["max_new"], "prefix": asked["prefix"], "length_penalty": asked["length_penalty"]}
    alone = task(found.inside.text, beam=1, seen=lambda ids, totals: job.check(), **more)
    assert alone.inside is not None
    return alone.text, alone.inside.hypothesis


def hypothesis(task: Translator, text: str, found: Hypothesis, n_forced: int) -> dict[str, Any]:
    names, words = words_written(found.ids, task.target)
    tokens = [
        {
            "i": i,
            "id": id,
            "text": names[i],
            "word": words[i],
            "special": task.target.is_silent(id),
            "p": math.exp(found.log_probabilities[i]),
            "forced": i < n_forced,
        }
        for i, id in enumerate(found.ids)
    ]
    numbers = {"score": found.score, "log_probability": found.log_probability, "reason": found.reason}
    return {"text": text, **numbers, "ids": list(found.ids), "tokens": tokens}


def _tree(found: Translation, greedy: Sequence[int]) -> dict[str, Any] | None:
    tree, inside = found.tree, found.inside
    if tree is None or inside is None:
        return None
    below, at, path = tree.children(), 0, {0}
    for token in greedy:
        after = [child for child in below[at] if tree.nodes[child].token == token]
        if not after:
            break
        at = after[0]
        path.add(at)
    nodes = []
    for node, row in zip(tree.nodes, tree.to_dict()["nodes"], strict=True):
        text = None if node.token is None else token_name(node.token, inside.target)
        nodes.append({**row, "text": text, "why": tree.why(node), "greedy": node.id in path})
    return {"nodes": nodes}


ROUTES = [Route("/api/translate", FIELDS, "Translate, with the beam's tree and the attention", translate, "translate")]
