"""A beam's tree on a terminal: every branch, and why it ended."""

import pytest
from rich.cells import cell_len

from regard.decoding.tree import Node, Tree
from regard.inspection.figures.tree import tree_text


def node(id: int, parent: int | None, token: int | None, step: int, score: float = -1.0, **end: object) -> Node:
    return Node(id, parent, token, step, -1.0, score * max(step, 1), score, **end)  # type: ignore[arg-type]


def test_a_tree_is_a_line_a_branch() -> None:
    tree = Tree(
        (
            node(0, None, None, 0),
            node(1, 0, 1, 1, -0.1),
            node(2, 0, 2, 1, -0.4, reason="pruned", rank=3),
            node(3, 1, 3, 2, -0.2),
            node(4, 3, 4, 3, -0.3, reason="chosen", rank=1),
            node(5, 3, 5, 3, -0.9, reason="limit", rank=2),
        )
    )
    assert tree_text(tree, lambda id: "?abcde"[id]).split("\n") == [
        "(start)",
        "├─ a c  -0.200",
        "│  ├─ d  -0.300  chosen: best of 2 finished",
        "│  └─ e  -0.900  cut at 3 tokens, the limit: rank 2 of 2",
        "└─ b  -0.400  pruned at rank 3",
    ]


def test_paths_that_never_were_in_the_beam_are_counted_unless_asked_for() -> None:
    tree = Tree(
        (
            node(0, None, None, 0),
            node(1, 0, 1, 1, -0.1),
            node(2, 0, 2, 1, -0.4),
            node(3, 1, 3, 2, -0.2, reason="chosen", rank=1),
            node(4, 1, 4, 2, -0.9, reason="pruned", rank=3),
            node(5, 2, 5, 2, -0.9, reason="pruned", rank=4),
        )
    )
    assert tree_text(tree, lambda id: "?abcde"[id], whole=False).split("\n") == [
        "(start)",
        "├─ a c  -0.200  chosen: the only one finished",
        "└─ b  -0.400  dropped: all its continuations were pruned",
        "(2 paths that never were in the beam are not shown)",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_a_tree_is_as_wide_as_the_terminal_and_says_why_to_the_end(width: int) -> None:
    chain = [node(0, None, None, 0), *(node(i, i - 1, 1, i) for i in range(1, 60))]
    tree = Tree((*chain, node(60, 59, 1, 60, -0.5, reason="chosen", rank=1)))
    shown = tree_text(tree, lambda _: "本a", width=width)
    assert cell_len(shown) <= width
    assert "…" in shown
    assert width < 60 or shown.endswith("chosen: the only one finished")


@pytest.mark.parametrize("depth", [5_000])
def test_a_deep_tree_is_no_trouble(depth: int) -> None:
    chain = [node(0, None, None, 0), *(node(i, i - 1, 1, i) for i in range(1, depth))]
    assert tree_text(Tree(tuple(chain)), str).startswith("(start) 1 1 1")
