"""A drawing as SVG: words stay words, numbers are under the pointer, and dark pages get light ink.

A page may set its own colours by the variables `--regard-ink`, `--regard-mark` and so on; programs that know no
variables get the fallback, and those that know no style sheet at least the words.
"""

import base64
from collections.abc import Iterator
from html import escape

from regard.inspection.figures.drawing import COLOURS, Drawing, Item, Line, Pixels, Rect, Text
from regard.inspection.figures.letters import clean

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def svg(drawing: Drawing) -> str:
    size = f'width="{drawing.width:.0f}" height="{drawing.height:.0f}"'
    view = f'viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}"'
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="regard" role="img" aria-label="{xml(drawing.title)}" '
        f"{size} {view}>",
        f"<title>{xml(drawing.title)}</title>",
        f"<desc>{xml(drawing.text)}</desc>",
        f"<style>\n{style()}\n</style>",
        f'<rect class="paper" {size}/>',
        *map(_element, drawing.items),
    ]
    return "\n".join([*rows, "</svg>", ""])


def style() -> str:
    """All rules begin with the figure's class: on a page they touch nothing else."""
    light, dark = (list(_inks(side)) for side in (0, 1))
    words = [".regard { color-scheme: light dark }", f".regard text {{ font-family: {FONT} }}"]
    return "\n".join([*words, *light, "@media (prefers-color-scheme: dark) {", *dark, "}"])


def _inks(side: int) -> Iterator[str]:
    for ink, colours in COLOURS.items():
        colour = colours[side]
        yield f".regard .{ink} {{ fill: {colour}; fill: var(--regard-{ink}, {colour}) }}"
        yield f".regard .{ink}-edge {{ stroke: {colour}; stroke: var(--regard-{ink}, {colour}) }}"


def _element(item: Item) -> str:
    match item:
        case Rect():
            edge = f" {item.edge}-edge" if item.edge else ""
            place = f'x="{item.x:.1f}" y="{item.y:.1f}" width="{item.width:.1f}" height="{item.height:.1f}"'
            return _titled(f'rect class="{item.ink}{edge}" {place} fill-opacity="{item.strength:.4f}"', item.title)
        case Line():
            ends = f'x1="{item.x:.1f}" y1="{item.y:.1f}" x2="{item.to_x:.1f}" y2="{item.to_y:.1f}"'
            look = f'stroke-width="{item.width:.2f}" stroke-opacity="{item.strength:.4f}"'
            return _titled(f'line class="{item.ink}-edge" {ends} {look}', item.title)
        case Text():
            return _words(item)
        case Pixels():
            return _picture(item)


def _titled(opening: str, title: str) -> str:
    return f"<{opening}><title>{xml(title)}</title></{opening.split()[0]}>" if title else f"<{opening}/>"


def _words(item: Text) -> str:
    place = f'x="{item.x:.1f}" y="{item.y:.1f}"'
    if item.upwards:
        place = f'transform="translate({item.x:.1f} {item.y:.1f}) rotate(-90)"'
    anchor = f' text-anchor="{item.anchor}"' if item.anchor != "start" else ""
    weight = ' font-weight="bold"' if item.bold else ""
    title = f"<title>{xml(item.title)}</title>" if item.title else ""
    return f'<text class="{item.ink}" {place} font-size="{item.size:g}"{anchor}{weight}>{xml(item.text)}{title}</text>'


def _picture(item: Pixels) -> str:
    from regard.inspection.figures.png import pixels_png  # imports pillow, and few figures need it

    data = base64.b64encode(pixels_png(item.values)).decode("ascii")
    place = f'x="{item.x:.1f}" y="{item.y:.1f}" width="{item.width:.1f}" height="{item.height:.1f}"'
    look = 'preserveAspectRatio="none" style="image-rendering: pixelated"'
    return f'<image {place} {look} href="data:image/png;base64,{data}"/>'


def xml(text: str) -> str:
    return escape(clean(text))
