"""The tree tells the truth about the search: its best path is the result, its numbers are the model's."""

import json
import math
from typing import Any

import pytest

from decoding.writers import ALL, ENDS, VOCAB, Writer, writer
from regard.decoding.beam import BeamSettings, Hypothesis, beam_search
from regard.decoding.search import Prefix
from regard.decoding.tree import FINISHED, Node, Reason, Tree

LIMIT, BEAMS = 7, 3


def search(w: Writer, *, prefix: Prefix = (), **settings: Any) -> list[list[Hypothesis]]:
    wanted = BeamSettings(**{"beams": BEAMS, "keep_tree": True} | settings)
    return beam_search(w.model.step, w.state(LIMIT), w.start, wanted, limit=LIMIT, end_ids=ENDS, prefix=prefix)


def tree_of(found: list[Hypothesis]) -> Tree:
    assert found[0].tree is not None
    return found[0].tree


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_the_best_path_is_the_result(name: str, penalty: float) -> None:
    w = writer(name, 4)
    plain = search(w, keep_tree=False, length_penalty=penalty)
    for found, other in zip(search(w, length_penalty=penalty), plain, strict=True):
        tree = tree_of(found)
        assert found == other  # keeping a tree changes nothing
        assert tuple(tree.path(tree.best)) == found[0].ids
        assert tree.best.score == pytest.approx(found[0].score, abs=1e-5)
        ends = [node.score for node in tree.nodes if node.reason in ("end", "limit", "chosen")]
        assert max(ends) == tree.best.score


@pytest.mark.parametrize("name", ["transformer", "t5", "lstm additive"])
def test_the_score_of_every_node_is_that_of_a_second_reading(name: str) -> None:
    w = writer(name, 2)
    for row, found in enumerate(search(w)):
        tree = tree_of(found)
        for node in tree.nodes[1:]:
            path = tree.path(node)
            again = w.log_probs(row, path)
            assert node.step == len(path)
            assert node.log_probability == pytest.approx(again[-1], abs=1e-4)
            assert node.total == pytest.approx(math.fsum(again), abs=1e-4)
            assert node.score == pytest.approx(math.fsum(again) / len(path), abs=1e-4)


@pytest.mark.parametrize("name", ["bart", "gru dot"])
def test_every_path_ends_for_a_reason(name: str) -> None:
    for found in search(writer(name, 6, seed=1), n_best=2):
        tree = tree_of(found)
        for node, below in zip(tree.nodes, tree.children(), strict=True):
            assert (node.reason is None) == bool(below)
            assert (node.rank is not None) == (node.reason is not None)
            if node.reason == "end":
                assert node.token in ENDS
            if node.reason == "limit":
                assert node.step == LIMIT
        assert sum(node.reason == "chosen" for node in tree.nodes) == 1


def continuations(w: Writer, tree: Tree, step: int) -> dict[tuple[int, ...], float]:
    """All candidates of a step, summed anew: every token behind every path that was live before it."""
    below = tree.children()
    live = [n for n in tree.nodes if n.step == step - 1 and (below[n.id] or n.reason == "overtaken")]
    texts = [(*tree.path(node), id) for node in live for id in range(VOCAB)]
    return dict(zip(texts, w.totals(0, texts), strict=True)) if texts else {}


@pytest.mark.parametrize(("name", "penalty", "n_best"), [("transformer", 1.0, 1), ("gru dot", 0.0, 2)])
def test_every_reason_is_true_by_a_second_reading(name: str, penalty: float, n_best: int) -> None:
    """The ranks are counted over all continuations of the step, which the model reads again one by one."""
    seen: set[str] = set()
    for seed in range(6):
        w = writer(name, 1, seed=seed)
        found = search(w, n_best=n_best, length_penalty=penalty)[0]
        tree = tree_of(found)
        finished = sorted((n.score for n in tree.nodes if n.reason in FINISHED), reverse=True)
        every = {step: continuations(w, tree, step) for step in range(1, LIMIT + 1)}
        for node in tree.nodes[1:]:
            path, rank = tuple(tree.path(node)), node.rank or 0
            seen.add(str(node.reason))
            if node.reason in ("pruned", "overtaken"):
                totals = every[node.step + (node.reason == "overtaken")]
                best = max(total for each, total in totals.items() if each[: len(path)] == path)
                assert sum(total > best + 1e-5 for total in totals.values()) < rank
                assert sum(total > best - 1e-5 for total in totals.values()) >= rank
                assert rank > (BEAMS if node.reason == "pruned" else 2 * BEAMS)
            elif node.reason in FINISHED:
                assert node.score == pytest.approx(finished[rank - 1], abs=1e-5)
            elif node.reason == "outdone":
                assert rank == len(found) + 1 == n_best + 1
                best_chance = node.total / LIMIT**penalty  # without any further loss
                assert best_chance <= found[-1].score + 1e-5
    assert {"chosen", "end", "pruned", "overtaken", "outdone"} <= seen


def test_reasons_in_words() -> None:
    def node(id: int, reason: Reason | None, rank: int | None, step: int = 3) -> Node:
        return Node(id, 0, 1, step, -1.0, -1.0, -1.0, reason, rank)

    first = [node(0, None, None), node(1, "chosen", 1), node(2, "end", 2), node(3, "limit", 3, 7)]
    tree = Tree((*first, node(4, "pruned", 5), node(5, "overtaken", 9), node(6, "outdone", 2), node(7, "outdone", 3)))
    assert [tree.why(each) for each in tree.nodes] == [
        "",
        "chosen: best of 3 finished",
        "finished: rank 2 of 3",
        "cut at 7 tokens, the limit: rank 3 of 3",
        "pruned at rank 5",
        "overtaken: its best continuation came at rank 9",
        "given up: worse than the best finished",
        "given up: worse than the 2 best finished",
    ]
    assert Tree((node(0, "chosen", 1),)).why(node(0, "chosen", 1)) == "chosen: the only one finished"


def test_a_continuation_that_lost_knows_its_place() -> None:
    w = writer("transformer", 1)
    tree = tree_of(search(w)[0])
    first = [node for node in tree.nodes if node.step == 1]
    assert [node.rank for node in first if node.reason == "pruned"] == [4, 5, 6]
    assert [node.total for node in first] == sorted((node.total for node in first), reverse=True)
    every = sorted((w.log_probs(0, [id])[0] for id in range(VOCAB)), reverse=True)
    assert [node.total for node in first] == pytest.approx(every[: 2 * BEAMS], abs=1e-4)


def test_a_tree_is_plain_data() -> None:
    tree = tree_of(search(writer("rnn", 1))[0])
    nodes = json.loads(json.dumps(tree.to_dict(), allow_nan=False))["nodes"]
    assert [node["id"] for node in nodes] == list(range(len(tree.nodes)))
    assert all(node["parent"] < node["id"] for node in nodes[1:])


def test_forced_tokens_leave_no_other_branches() -> None:
    tree = tree_of(search(writer("transformer", 1), prefix=[[3, 5]])[0])
    assert [tree.path(node) for node in tree.nodes if node.step in (1, 2)] == [[3], [3, 5]]
