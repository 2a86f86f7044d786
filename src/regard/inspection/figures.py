"""Figures without a drawing library: an alignment as shades or SVG, a beam's tree as lines."""

import re
from collections.abc import Callable, Iterator
from html import escape
from unicodedata import category

from rich.cells import cell_len, set_cell_size

from regard.decoding.tree import Node, Tree
from regard.inspection.alignment import Alignment

SHADES = " ░▒▓█"
LEAST = 0.05
"A smaller weight stays white."
LONGEST = 16
"Letters of a word that are shown on a terminal."
LEAST_WORDS = 12
"Letters of a branch of a tree that are shown, however much stands around them."


def alignment_text(alignment: Alignment, width: int = 80) -> str:
    """Words of the source across, of the target down; what does not fit beside comes below."""
    side = min(LONGEST, max(map(cell_len, alignment.target), default=0))
    blocks = list(_blocks([min(LONGEST, cell_len(word)) + 2 for word in alignment.source], width - side))
    return "\n\n".join("\n".join(_rows(alignment, side, block)) for block in blocks)


def alignment_legend(what: str) -> str:
    """What is shown, in one line, and what the shades stand for."""
    steps = " ".join(f"{sign} {max(LEAST, at / 4):.0%}" for at, sign in enumerate(SHADES[1:]))
    return f"{what}; a row sums to 1; from {steps}"


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
    return set_cell_size(_cut(_clean(word), width), width)


def _cut(word: str, width: int) -> str:
    """At most so wide; letters of many scripts are two cells wide, and some none."""
    return word if cell_len(word) <= width else f"{set_cell_size(word, width - 1).rstrip()}…"


def _clean(word: str) -> str:
    """Without what a terminal would obey or XML forbid."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", word)


def shade(weight: float) -> str:
    if weight < LEAST:
        return SHADES[0]
    return SHADES[min(4, 1 + int(weight * 4))]


CELL, LETTER, LONGEST_DRAWN = 24, 7.2, 24
STYLE = """\
.alignment { background: #fff }
.alignment text { font: 12px ui-monospace, monospace; fill: #24292f }
.alignment rect { fill: #2f6fde; stroke: #888; stroke-opacity: 0.5; stroke-width: 0.5 }
@media (prefers-color-scheme: dark) {
  .alignment { background: #0d1117 }
  .alignment text { fill: #e6edf3 }
  .alignment rect { fill: #6aa5ff }
}"""
"With its own background: a page that is white in dark mode too would swallow the light text."


def alignment_svg(alignment: Alignment) -> str:
    """One square a pair of words, darker where more was looked at; its number shows under the pointer."""
    left, top = _room(alignment.target), _room(alignment.source)
    width, height = left + CELL * len(alignment.source) + 12, top + CELL * len(alignment.target) + 12
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="alignment" role="img" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        "<title>Where each word of the translation (down) looked in the source (across)</title>",
        f"<style>{STYLE}</style>",
    ]
    for column, word in enumerate(alignment.source):
        x, y = left + CELL * (column + 0.65), top - 6
        rows.append(f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)">{_label(word)}</text>')
    for row, word in enumerate(alignment.target):
        y = top + CELL * (row + 0.65)
        rows.append(f'<text x="{left - 6:.1f}" y="{y:.1f}" text-anchor="end">{_label(word)}</text>')
    rows += _squares(alignment, left, top)
    return "\n".join([*rows, "</svg>", ""])


def _room(words: tuple[str, ...]) -> float:
    """For the longest word as it is drawn."""
    return 12 + LETTER * max((sum(map(_cells, _short(word))) for word in words), default=0.0)


def _cells(letter: str) -> float:
    """How wide a letter may get, in letters of Latin script; only that and its neighbours have fonts of one width."""
    if letter >= "\U0001f000":
        return 2.4  # emoji
    if "\u0900" <= letter < "\u2000" and category(letter) not in ("Mn", "Cf"):
        return 1.7  # scripts of South Asia and around, with signs that stand beside their letter
    return cell_len(letter)


def _short(word: str) -> str:
    return _cut(_clean(word), LONGEST_DRAWN)


def _label(word: str) -> str:
    """One long word must not push all else off the page: its end is under the pointer."""
    short = _short(word)
    return escape(short) + (f"<title>{_xml(word)}</title>" if short != _clean(word) else "")


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
        words = " ".join("(start)" if node.token is None else _clean(name(node.token)) for node in chain)
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
    return _cut(lead + _cut(words, room) + verdict, width)


def _verdict(tree: Tree, node: Node) -> str:
    return "" if node.token is None else f"  {node.score:.3f}  {tree.why(node)}".rstrip()
