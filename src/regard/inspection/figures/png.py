"""A drawing as PNG, on light paper, by pillow alone.

Its built-in font knows Latin letters; what it does not know is drawn as the font's empty box, never left out, and our
own signs are spelt. The SVG is the better figure wherever it can be shown.
"""

import io
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

from regard.inspection.figures.drawing import COLOURS, Drawing, Ink, Item, Line, Pixels, Rect, Text
from regard.inspection.figures.letters import clean

SCALE = 2
"Dots a unit: letters stay sharp on paper and on fine screens."
SPELT = str.maketrans({"√": "sqrt ", "→": "->", "⇢": "->"})
MAX_SIDE = 8_000
"Dots; beyond that a drawing is scaled down rather than refused."


def png(drawing: Drawing) -> bytes:
    scale = min(SCALE, MAX_SIDE / max(drawing.width, drawing.height, 1))
    size = max(1, round(drawing.width * scale)), max(1, round(drawing.height * scale))
    image = Image.new("RGB", size, _colour("paper"))
    for item in drawing.items:
        _draw(image, item, scale)
    return _written(image)


def pixels_png(values: NDArray[np.float32]) -> bytes:
    """One dot a number, as strong as the number is large; what is zero lets the paper through."""
    return _written(_pixels(values))


def _pixels(values: NDArray[np.float32]) -> Image.Image:
    values = np.nan_to_num(values).clip(-1, 1)
    dots = np.zeros((*values.shape, 4), dtype=np.uint8)
    for ink, chosen in (("mark", values >= 0), ("minus", values < 0)):
        dots[chosen, :3] = _colour(ink)  # type: ignore[arg-type]
    dots[..., 3] = np.abs(values) * 255
    return Image.fromarray(dots, "RGBA")


def _draw(image: Image.Image, item: Item, scale: float) -> None:
    pen = ImageDraw.Draw(image)
    match item:
        case Rect():
            box = [round(v * scale) for v in (item.x, item.y, item.x + item.width, item.y + item.height)]
            edge = _colour(item.edge) if item.edge else None
            if box[2] > box[0] and box[3] > box[1]:
                pen.rectangle(box, fill=_mixed(item.ink, item.strength), outline=edge)
        case Line():
            ends = [(item.x * scale, item.y * scale), (item.to_x * scale, item.to_y * scale)]
            pen.line(ends, fill=_mixed(item.ink, item.strength), width=max(1, round(item.width * scale)))
        case Text():
            _write(image, item, scale)
        case Pixels():
            size = max(1, round(item.width * scale)), max(1, round(item.height * scale))
            picture = _pixels(item.values).resize(size, Image.Resampling.NEAREST)
            image.paste(picture, (round(item.x * scale), round(item.y * scale)), picture)


def _write(image: Image.Image, item: Text, scale: float) -> None:
    font, text = _font(item.size * scale), clean(item.text).translate(SPELT)
    colour, anchor = _colour(item.ink), {"start": "ls", "middle": "ms", "end": "rs"}[item.anchor]
    if not item.upwards:
        stroke = 0.4 * scale if item.bold else 0
        pen = ImageDraw.Draw(image)
        pen.text((item.x * scale, item.y * scale), text, colour, font, anchor, stroke_width=stroke)
        return
    width, height = int(font.getlength(text)) + 4, int(item.size * scale * 1.5)
    label = Image.new("L", (width, height), 0)
    ImageDraw.Draw(label).text((0, height * 0.75), text, 255, font, "ls")
    label = label.rotate(90, expand=True)
    image.paste(colour, (round(item.x * scale - height * 0.75), round(item.y * scale) - width), label)


@cache
def _font(size: float) -> Any:
    return ImageFont.load_default(size)


def _colour(ink: Ink) -> tuple[int, ...]:
    return ImageColor.getrgb(COLOURS[ink][0])


def _mixed(ink: Ink, strength: float) -> tuple[int, ...]:
    """As it looks over the paper."""
    paper = _colour("paper")
    return tuple(round(a * strength + b * (1 - strength)) for a, b in zip(_colour(ink), paper, strict=True))


def _written(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
