"""The beam's tree: every continuation that was kept or nearly kept, and why each path ended."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

Reason = Literal["chosen", "end", "limit", "pruned", "overtaken", "outdone"]

FINISHED: tuple[Reason, ...] = ("chosen", "end", "limit")


@dataclass(frozen=True)
class Node:
    id: int
    parent: int | None
    token: int | None
    "None at the root, which stands for the start."
    step: int
    "How many tokens the path has."
    log_probability: float
    "Of the token, after its path."
    total: float
    "Sum of the log-probabilities along the path."
    score: float
    "The total with the length penalty: what hypotheses are compared by."
    reason: Reason | None = None
    """Why the path ended here; None where it goes on.

    `end` and `limit` are finished, and the best of them, whatever ended it, is `chosen`. `pruned` was never in the
    beam; `overtaken` was, but none of its continuations came near it; `outdone` was live when the search ended,
    because it could no longer come before the finished ones that were asked for.
    """
    rank: int | None = None
    """Its place, from 1: of a finished path among all finished ones; of a pruned one among the candidates of its
    step; of an overtaken one that of its best continuation; of an outdone one the best it could still have had.
    """


@dataclass(frozen=True)
class Tree:
    nodes: tuple[Node, ...]
    "Numbered by `id`, parents before children, better siblings first."

    @property
    def best(self) -> Node:
        return next(node for node in self.nodes if node.reason == "chosen")

    def path(self, node: Node) -> list[int]:
        """The tokens from the start to here."""
        tokens = []
        while node.parent is not None and node.token is not None:
            tokens.append(node.token)
            node = self.nodes[node.parent]
        return tokens[::-1]

    def children(self) -> list[list[int]]:
        """For each node the ids of those that continue it."""
        below: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            if node.parent is not None:
                below[node.parent].append(node.id)
        return below

    @cached_property
    def n_finished(self) -> int:
        return sum(node.reason in FINISHED for node in self.nodes)

    def why(self, node: Node) -> str:
        """The reason in words; nothing where the path goes on."""
        count, place = self.n_finished, f"rank {node.rank} of {self.n_finished}"
        match node.reason:
            case "chosen":
                return "chosen: " + (f"best of {count} finished" if count > 1 else "the only one finished")
            case "end":
                return f"finished: {place}"
            case "limit":
                return f"cut at {node.step} tokens, the limit: {place}"
            case "pruned":
                return f"pruned at rank {node.rank}"
            case "overtaken":
                return f"overtaken: its best continuation came at rank {node.rank}"
            case "outdone":
                better = (node.rank or 0) - 1
                return f"given up: worse than the {f'{better} best' if better > 1 else 'best'} finished"
        return ""

    def to_dict(self) -> dict[str, Any]:
        return {"nodes": [asdict(node) for node in self.nodes]}


class Candidate(NamedTuple):
    """A continuation of one live hypothesis by one token."""

    slot: int
    "Which hypothesis."
    token: int
    log_probability: float
    total: float
    reason: Reason | None


class Growth:
    """The tree of one sentence while it grows."""

    def __init__(self, length_penalty: float) -> None:
        self.length_penalty = length_penalty
        self.nodes = [Node(0, None, None, 0, 0.0, 0.0, 0.0)]
        self.slots: list[int | None] = [0]
        "The node of each live hypothesis."
        self.found: dict[tuple[int, int], int] = {}

    def grow(self, kept: Sequence[Candidate], lost: Sequence[Candidate], ranks: Sequence[int]) -> None:
        """One step: the candidates in the beam, those right behind it, and the rank of each slot's best child."""
        before = self.slots
        self.slots = [self._add(before, candidate) for candidate in kept]
        for rank, candidate in enumerate(lost, start=len(kept) + 1):
            self._add(before, candidate._replace(reason="pruned"), rank)
        parents = {before[candidate.slot] for candidate in [*kept, *lost] if candidate.total > -math.inf}
        for slot, rank in zip(before, ranks, strict=True):
            if slot is not None and slot not in parents:
                self._end(slot, "overtaken", rank)
        self.slots = [None if slot is None or self.nodes[slot].reason else slot for slot in self.slots]

    def _add(self, slots: Sequence[int | None], candidate: Candidate, rank: int | None = None) -> int | None:
        parent = slots[candidate.slot]
        if parent is None or candidate.total == -math.inf:
            return None  # an empty place in the beam
        number, step = len(self.nodes), self.nodes[parent].step + 1
        score = candidate.total / step**self.length_penalty
        values = candidate.token, step, candidate.log_probability, candidate.total, score, candidate.reason, rank
        self.nodes.append(Node(number, parent, *values))
        self.found[parent, candidate.token] = number
        return number

    def _end(self, node: int, reason: Reason, rank: int | None = None) -> None:
        self.nodes[node] = replace(self.nodes[node], reason=reason, rank=rank)

    def close(self, best: Iterable[int], n_found: int) -> Tree:
        """The search is over: what is still live could not have come before the `n_found` best finished ones."""
        for slot in self.slots:
            if slot is not None:
                self._end(slot, "outdone", n_found + 1)
        chosen = 0
        for token in best:
            chosen = self.found[chosen, token]
        self._end(chosen, "chosen")
        finished = [node for node in self.nodes if node.reason in FINISHED]
        finished.sort(key=lambda node: (node.id != chosen, -node.score))  # of equal scores the search chose one
        for rank, node in enumerate(finished, start=1):
            self._end(node.id, cast(Reason, node.reason), rank)
        return Tree(tuple(self.nodes))
