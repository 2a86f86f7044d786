"""Numbers on a bare terminal: shades for weights, small bars for vectors."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from regard.inspection.alignment import Alignment
from regard.inspection.figures.letters import fit

SHADES = " ░▒▓█"
LEAST = 0.05
"A smaller weight stays white."
LONGEST = 16
"Letters of a word that are shown."
STEPS = "▁▂▃▄▅▆▇█"


def shade(weight: float) -> str:
    if weight < LEAST:
        return SHADES[0]
    return SHADES[min(4, 1 + int(weight * 4))]


def bar(share: float, width: int) -> str:
    """Filled by eighths of a letter, of which half is the least that shows."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    return ("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]).rstrip().ljust(width)


def strip(values: Sequence[float], largest: float) -> str:
    """A vector, one letter a number: the lowest for -largest, the highest for +largest."""
    scale = largest or 1.0
    return "".join(STEPS[min(7, max(0, round((value / scale + 1) * 3.5)))] for value in values)


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
    yield (" " * side + "".join(f"  {fit(alignment.source[column], width - 2)}" for column, width in block)).rstrip()
    for word, weights in zip(alignment.target, alignment.weights.tolist(), strict=True):
        cells = "".join("  " + shade(weights[column]) * (width - 2) for column, width in block)
        yield (fit(word, side) + cells).rstrip()
