"""Figures without a drawing library: an alignment as shades or SVG, a beam's tree as lines."""

import re
from collections.abc import Callable, Iterator
from html import escape

from rich.cells import cell_len, set_cell_size

from regard.decoding.tree import Node, Tree
from regard.inspection.alignment import Alignment

SHADES = " ░▒▓█"
LEAST = 0.05
"A smaller weight stays white."
LONGEST = 16
"Letters of a word that are shown on a terminal."


def alignment_text(alignment: Alignment, width: int = 80) -> str:
    """Words of the source across, of the target down; what does not fit beside comes below."""
    side = min(LONGEST, max(map(cell_len, alignment.target), default=0))
    blocks = list(_blocks([min(LONGEST, cell_len(word)) + 2 for word in alignment.source], width - side))
    return "\n\n".join("\n".join(_rows(alignment, side, block)) for block in blocks)


def _blocks(widths: list[int], room: int) -> Iterator[list[tuple[int, int]]]:
    """Columns with their widths, as many as fit beside each other, at least one."""
    block: list[tuple[int, int]] = []
    for column, width in enumerate(widths):
        if block and sum(each for _, each in block) + width > room:
            yield block
            block = []
        block.append((column, width))
    if block:
        yield block


def _rows(alignment: Alignment, side: int, block: list[tuple[int, int]]) -> Iterator[str]:
    yield (" " * side + "".join(f"  {_fit(alignment.source[column], width - 2)}" for column, width in block)).rstrip()
    for word, weights in zip(alignment.target, alignment.weights.tolist(), strict=True):
        cells = "".join("  " + shade(weights[column]) * (width - 2) for column, width in block)
        yield (_fit(word, side) + cells).rstrip()


def _fit(word: str, width: int) -> str:
    word = _clean(word)
    return set_cell_size(word if cell_len(word) <= width else f"{word[: width - 1]}…", width)


def _clean(word: str) -> str:
    """Without what a terminal would obey or XML forbid."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", word)


def shade(weight: float) -> str:
    if weight < LEAST:
        return SHADES[0]
    return SHADES[min(4, 1 + int(weight * 4))]


CELL, LETTER = 24, 7.2
STYLE = """\
text { font: 12px ui-monospace, monospace; fill: #24292f }
rect { fill: #2f6fde; stroke: #888; stroke-opacity: 0.5; stroke-width: 0.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #6aa5ff } }"""
"The page's own background stays: text and cells are readable on white and on black."


def alignment_svg(alignment: Alignment) -> str:
    """One square a pair of words, darker where more was looked at; its number shows under the pointer."""
    left = 12 + LETTER * max(map(cell_len, alignment.target), default=0)
    top = 12 + LETTER * max(map(cell_len, alignment.source), default=0)
    width, height = left + CELL * len(alignment.source) + 12, top + CELL * len(alignment.target) + 12
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        "<title>Where each word of the translation (down) looked in the source (across)</title>",
        f"<style>{STYLE}</style>",
    ]
    for column, word in enumerate(alignment.source):
        x, y = left + CELL * (column + 0.65), top - 6
        rows.append(f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)">{_xml(word)}</text>')
    for row, word in enumerate(alignment.target):
        y = top + CELL * (row + 0.65)
        rows.append(f'<text x="{left - 6:.1f}" y="{y:.1f}" text-anchor="end">{_xml(word)}</text>')
    rows += _squares(alignment, left, top)
    return "\n".join([*rows, "</svg>", ""])


def _squares(alignment: Alignment, left: float, top: float) -> Iterator[str]:
    for row, weights in enumerate(alignment.weights.tolist()):
        for column, weight in enumerate(weights):
            title = f"{_xml(alignment.target[row])} ← {_xml(alignment.source[column])}: {weight:.4f}"
            yield (
                f'<rect x="{left + CELL * column:.1f}" y="{top + CELL * row:.1f}" width="{CELL}" height="{CELL}" '
                f'fill-opacity="{weight:.4f}"><title>{title}</title></rect>'
            )


def _xml(word: str) -> str:
    return escape(_clean(word))


def tree_text(tree: Tree, name: Callable[[int], str]) -> str:
    """A line a branch: its tokens up to the next fork, the score there, and why it ended."""
    below, lines = tree.children(), []
    waiting = [(0, "", "")]  # a node, what stands before it, and what stands before its children
    while waiting:
        start, lead, indent = waiting.pop()
        chain = [tree.nodes[start]]
        while len(below[chain[-1].id]) == 1:
            chain.append(tree.nodes[below[chain[-1].id][0]])
        words = " ".join("(start)" if node.token is None else _clean(name(node.token)) for node in chain)
        lines.append(f"{lead}{words}{_verdict(chain[-1])}")
        children = below[chain[-1].id]
        for child in reversed(children):  # the first is written first
            last = child == children[-1]
            waiting.append((child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")))
    return "\n".join(lines)


def _verdict(node: Node) -> str:
    if node.token is None:
        return ""
    score = f"  {node.score:.3f}"
    if node.reason is None:
        return score
    return f"{score}  {node.reason}" + (f" at rank {node.rank}" if node.rank is not None else "")
