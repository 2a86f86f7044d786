"""The beam's tree: every continuation that was kept or nearly kept, and why each path ended."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

Reason = Literal["end", "limit", "pruned", "chosen"]


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
    "Why the path ended here; None where it goes on. The best path is `chosen`, whatever ended it."
    rank: int | None = None
    "Where a pruned path stood: among the candidates of its step, or behind the finished ones."


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
                self._end(slot, "pruned", rank)
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

    def close(self, best: Iterable[int], n_finished: int) -> Tree:
        """The search is over: the rest could not have beaten the finished ones."""
        left = [slot for slot in self.slots if slot is not None]
        for rank, slot in enumerate(left, start=n_finished + 1):
            self._end(slot, "pruned", rank)
        node = 0
        for token in best:
            node = self.found[node, token]
        self._end(node, "chosen")
        return Tree(tuple(self.nodes))
