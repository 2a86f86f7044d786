"""Every number on the way of one query: from q and k to the weights, the sum, the stream and the words at the end.

All of it is the model's own arithmetic: what enters and leaves its modules is caught while it reads, and between them
the readable twin computes what the fused kernel does not show. `error` is how far the two are apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.inspection.attention import described, recomputed
from regard.inspection.capture import digits
from regard.inspection.ending import Ending, ending
from regard.inspection.figures.drawing import Drawing, below
from regard.inspection.figures.links import links
from regard.inspection.figures.shown import Shown
from regard.inspection.figures.table import table
from regard.inspection.masks import closed_by, reason
from regard.inspection.reading import Call, Kind, Reading, watching
from regard.layers.attention import repeat_heads
from regard.models.base import Output


@dataclass(frozen=True, eq=False)
class Step:
    """A vector (D) on the way through the block."""

    name: str
    values: Tensor


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    kind: Kind
    layer: int
    head: int
    query: int
    "Number of the token that asks."
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    key_head: int
    "The head of keys and values that it uses; several share one where they are grouped."
    scale: float
    q: Tensor  # (K)
    k: Tensor  # (S, K)
    v: Tensor  # (S, K)
    scores: Tensor  # (S) q · k
    scaled: Tensor  # (S) score · scale, and the bias of relative positions where there is one
    bias: Tensor | None
    reasons: tuple[str, ...]
    "Why a key is closed; empty where it is open."
    weights: Tensor  # (S)
    weighted: Tensor  # (S, K) weight · v
    total: Tensor  # (K) their sum, the head's output
    projected: Tensor  # (D) this head's part after the output projection
    attended: Tensor  # (D) of all heads together, as it leaves the sub-layer
    steps: tuple[Step, ...]
    ending: Ending | None
    error: float
    "Largest difference between the output computed here and the model's own."

    @property
    def query_name(self) -> str:
        return self.queries[self.query]

    @property
    def title(self) -> str:
        return f"“{self.query_name}”: {described(self.kind)}, layer {self.layer} head {self.head}"

    @property
    def best(self) -> int:
        """The key that is looked at most."""
        return int(self.weights.argmax())

    def drawing(self) -> Drawing:
        names = [self.query_name] if self.kind == "cross" else self.queries
        at = 0 if self.kind == "cross" else self.query
        lines = torch.zeros(len(names), len(self.keys))
        lines[at] = self.weights
        parts = [links(lines, names, self.keys, title=self.title, only=at), self._keys(), self._vectors()]
        return below([*parts, *([self.ending.drawing()] if self.ending else [])], self.title)

    def _keys(self) -> Drawing:
        columns: dict[str, list[str]] = {"key": list(self.keys)}
        columns |= {
            "q·k": [f"{score:.3f}" for score in self.scores],
            self.scaled_name: [f"{x:.3f}" for x in self.scaled],
        }
        columns |= {"closed by": list(self.reasons)} if any(self.reasons) else {}
        columns |= {"weight": [f"{weight:.4f}" for weight in self.weights]}
        rows = list(zip(*columns.values(), strict=True))
        return table(list(columns), rows, title="The query against every key", shares=self.weights.tolist())

    def _vectors(self) -> Drawing:
        rows = [[name, _some(values), f"{float(values.norm()):.3f}"] for name, values in self.vectors()]
        return table(["vector", "its first numbers", "length"], rows, title="On the way through the block")

    def vectors(self) -> list[tuple[str, Tensor]]:
        """Those of this head, then those of the block, in order."""
        own = {"q": self.q, "sum of weight · v": self.total, "this head after the output layer": self.projected}
        return [*own.items(), *((step.name, step.values) for step in self.steps)]

    @property
    def scaled_name(self) -> str:
        if self.kind == "cross" and self.scale == 1.0 and self.bias is None:
            return "score"
        return ("scaled" if self.scale != 1.0 else "unscaled") + (" + bias" if self.bias is not None else "")

    def table(self) -> list[Sequence[object]]:
        """One row a key, with all components."""
        width = self.q.numel()
        parts = {"k": self.k, "v": self.v, "weight·v": self.weighted}
        head = ["key", "score", "scaled", "closed by", "weight"]
        head += [f"{name}[{i}]" for name in parts for i in range(width)]
        rows: list[Sequence[object]] = [head]
        for i, name in enumerate(self.keys):
            numbers = [number for values in parts.values() for number in digits(values[i])]
            first = [digits(self.scores[i]), digits(self.scaled[i]), self.reasons[i], digits(self.weights[i])]
            rows.append([name, *first, *numbers])
        return rows

    def numbers(self) -> NDArray[np.float32]:
        """(S, 3 + 3K): score, scaled, weight, then k, v and weight · v of each key."""
        columns = [self.scores[:, None], self.scaled[:, None], self.weights[:, None], self.k, self.v, self.weighted]
        return torch.cat(columns, dim=1).numpy()

    def to_dict(self) -> dict[str, Any]:
        per_key = {"score": self.scores, "scaled": self.scaled, "weight": self.weights}
        vectors = {"k": self.k, "v": self.v, "weighted": self.weighted}
        rows = [
            {"i": i, "text": name, "closed_by": self.reasons[i]}
            | {key: digits(values[i]) for key, values in (per_key | vectors).items()}
            | ({} if self.bias is None else {"bias": digits(self.bias[i])})
            for i, name in enumerate(self.keys)
        ]
        place = {"kind": self.kind, "layer": self.layer, "head": self.head, "key_head": self.key_head}
        ends = {"sum": self.total, "projected": self.projected, "attended": self.attended}
        return {
            "type": "explanation",
            **place,
            "query": {"i": self.query, "text": self.query_name, "q": digits(self.q)},
            "scale": self.scale,
            "keys": rows,
            **{name: digits(values) for name, values in ends.items()},
            "steps": [{"name": step.name, "values": digits(step.values)} for step in self.steps],
            "ending": None if self.ending is None else self.ending.to_dict(),
            "check": {"largest_error": self.error},
        }


def _some(values: Tensor, count: int = 4) -> str:
    more = " …" if values.numel() > count else ""
    return " ".join(f"{value:+.3f}" for value in values[:count].tolist()) + more


@torch.no_grad()
def explain(reading: Reading, kind: Kind, layer: int, head: int, query: int) -> Explanation:
    """`query` is the number of the token that asks; in a translation's cross-attention that of the token written."""
    reading.check(kind, layer, head)
    assert 0 <= query < len(reading.queries(kind)), "a token of the reading"
    if reading.is_recurrent:
        return _explain_recurrent(reading, query)
    block: Any = reading.stack(kind).blocks[layer]
    names = ("attn", "cross", "ffn")
    parts = {name: getattr(block, name) for name in names if getattr(block, name) is not None}
    inner = {f"{name}_residual": getattr(block, f"{name}_residual") for name in parts}
    norms = {f"{name}_norm": residual.norm for name, residual in zip(parts, inner.values(), strict=True)}
    with watching({**parts, **inner, **norms}) as seen:
        out = reading.run()
    calls = {name: found[0] for name, found in seen.items()}
    name = "cross" if kind == "cross" else "attn"
    module, call = parts[name], calls[name]
    q, k, v, mask = call.args
    heads, weights = recomputed(module, call)  # (1, H, T, K), (1, H, T, S)
    whole = module.o(heads.transpose(1, 2).flatten(-2))[0, query]
    row = {"q": q[0, head, query], "weights": weights[0, head, query]}
    row |= {"k": repeat_heads(k, q.size(1))[0, head], "v": repeat_heads(v, q.size(1))[0, head]}
    bias = call.options.get("bias")
    codes = closed_by(mask, q.size(-2), k.size(-2), q.device)[0, query].tolist()
    return Explanation(
        *(kind, layer, head, query),
        reading.queries(kind).names,
        reading.keys(kind).names,
        key_head=head * module.n_kv_heads // module.n_heads,
        scale=module.scale,
        **_weighed(row, module.scale, None if bias is None else bias[0, head, query]),
        reasons=tuple(map(reason, codes)),
        projected=_plain(_part(module, heads, head)[query]),
        attended=_plain(call.output[0, query]),
        steps=_steps(calls, list(parts), query),
        ending=ending(reading, out, kind, query),
        error=float((whole - call.output[0, query]).abs().max()),
    )


def _weighed(row: dict[str, Tensor], scale: float, bias: Tensor | None) -> dict[str, Any]:
    """The table of the lecture: score, scaled, softmax, weight times v, sum."""
    q, k, v, weights = (_plain(row[name]) for name in ("q", "k", "v", "weights"))
    bias = None if bias is None else _plain(bias)
    scores, weighted = k @ q, weights[:, None] * v  # (S), (S, K)
    scaled = scores * scale if bias is None else scores * scale + bias
    found = {"q": q, "k": k, "v": v, "scores": scores, "scaled": scaled, "bias": bias}
    return found | {"weights": weights, "weighted": weighted, "total": weighted.sum(0)}


def _part(module: Any, heads: Tensor, head: int) -> Tensor:
    """(T, D) what one head adds: the output layer of it alone, without the bias that all share."""
    alone = torch.zeros_like(heads)
    alone[:, head] = heads[:, head]
    out = module.o(alone.transpose(1, 2).flatten(-2))[0]
    return out if module.o.bias is None else out - module.o.bias


def _steps(calls: dict[str, Call], parts: Sequence[str], at: int) -> tuple[Step, ...]:
    """What happens to the vector of one token, in the order of the block."""
    said = {"attn": "self-attention", "cross": "cross-attention", "ffn": "feed-forward"}
    found = [Step("enters the block", calls[f"{parts[0]}_residual"].args[0][0, at])]
    for part in parts:
        residual, norm = calls[f"{part}_residual"], calls[f"{part}_norm"]
        before, out = residual.args[0][0, at], calls[part].output[0, at]
        is_pre = norm.args[0] is residual.args[0]
        found += [Step(f"norm before {said[part]}", norm.output[0, at])] if is_pre else []
        found += [Step(said[part], out), Step("+ what entered", before + out)]
        found += [] if is_pre else [Step(f"norm after {said[part]}", norm.output[0, at])]
    return tuple(Step(step.name, _plain(step.values)) for step in found)


def _plain(values: Tensor) -> Tensor:
    return values.detach().float().cpu()


def _explain_recurrent(reading: Reading, query: int) -> Explanation:
    """Additive or dot attention: the query is the decoder's state, the values are the encoder's."""
    module = reading.model.decoder.attention
    with watching({"look": module, "combine": reading.model.decoder.combine}) as seen:
        out: Output = reading.run()
    calls = seen["look"]
    call, at = (calls[query], 0) if len(calls) > 1 else (calls[0], query)  # one call a token, or one for all
    queries, source = call.args
    scores = _plain(module.scores(queries[:, at : at + 1], source.keys)[0, 0])
    weights, values = _plain(call.output[1][0, at]), _plain(source.values[0])
    context, combined = _plain(call.output[0][0, at]), _plain(seen["combine"][0].output[0, query])
    weighted = weights[:, None] * values
    return Explanation(
        *("cross", 0, 0, query),
        reading.queries("cross").names,
        reading.keys("cross").names,
        key_head=0,
        scale=1.0,
        q=_plain(queries[0, at]),
        k=_plain(source.keys[0]),
        v=values,
        scores=scores,
        scaled=scores,
        bias=None,
        reasons=tuple("" if is_real else "padding" for is_real in source.valid[0].tolist()),
        weights=weights,
        weighted=weighted,
        total=weighted.sum(0),
        projected=context,
        attended=context,
        steps=(Step("W [context; state]", combined), Step("tanh of it", _plain(out.hidden[0, query]))),
        ending=ending(reading, out, "cross", query),
        error=float((weighted.sum(0) - context).abs().max()),
    )
