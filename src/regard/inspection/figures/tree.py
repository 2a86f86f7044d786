"""A beam's tree as lines: the branches, and why each ended."""

from collections.abc import Callable

from rich.cells import cell_len

from regard.decoding.tree import Node, Tree
from regard.inspection.figures.letters import clean, cut_cells

LEAST_WORDS = 12
"Letters of a branch of a tree that are shown, however much stands around them."


def tree_text(tree: Tree, name: Callable[[int], str], *, width: int | None = None, whole: bool = True) -> str:
    """A line a branch: its tokens up to the next fork, the score there, and why it ended.

    Cut to `width`, where there is one. Unless the `whole` is asked for, paths that never were in the beam are counted
    only: they are most of them, and the least likely.
    """
    below, lines = tree.children(), []
    shown = below if whole else [[i for i in some if tree.nodes[i].reason != "pruned"] for some in below]
    waiting = [(0, "", "")]  # a node, what stands before it, and what stands before its children
    while waiting:
        start, lead, indent = waiting.pop()
        chain = [tree.nodes[start]]
        while len(shown[chain[-1].id]) == 1:
            chain.append(tree.nodes[shown[chain[-1].id][0]])
        words = " ".join("(start)" if node.token is None else clean(name(node.token)) for node in chain)
        children, verdict = shown[chain[-1].id], _verdict(tree, chain[-1])
        if below[chain[-1].id] and not children:
            verdict += "  dropped: all its continuations were pruned"
        lines.append(_branch(lead, words, verdict, width))
        for child in reversed(children):  # the first is written first
            last = child == children[-1]
            waiting.append((child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")))
    hidden = sum(len(some) for some in below) - sum(len(some) for some in shown)
    return "\n".join([*lines, f"({hidden:,} paths that never were in the beam are not shown)"] if hidden else lines)


def _branch(lead: str, words: str, verdict: str, width: int | None) -> str:
    """Of what is too wide the words are cut first: why a path ended is worth more than all of it."""
    if width is None:
        return lead + words + verdict
    room = max(LEAST_WORDS, width - cell_len(lead) - cell_len(verdict))
    return cut_cells(lead + cut_cells(words, room) + verdict, width)


def _verdict(tree: Tree, node: Node) -> str:
    return "" if node.token is None else f"  {node.score:.3f}  {tree.why(node)}".rstrip()
