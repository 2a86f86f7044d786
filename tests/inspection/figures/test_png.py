"""The PNG shows what the SVG shows, on light paper."""

import io

import numpy as np
import torch
from PIL import Image, ImageColor

from regard.inspection.figures.drawing import COLOURS, Drawing, Line, Rect, Text
from regard.inspection.figures.heat import heat_map
from regard.inspection.figures.png import MAX_SIDE, SCALE, pixels_png, png

MARK = ImageColor.getrgb(COLOURS["mark"][0])


def opened(drawing: Drawing) -> Image.Image:
    return Image.open(io.BytesIO(png(drawing))).convert("RGB")


def test_a_square_has_its_place_and_its_strength() -> None:
    found = opened(Drawing(40, 30, [Rect(10, 10, 10, 10, "mark", 1.0), Rect(30, 10, 5, 5, "mark", 0.5)], ""))
    assert found.size == (40 * SCALE, 30 * SCALE)
    assert found.getpixel((15 * SCALE, 15 * SCALE)) == MARK
    assert found.getpixel((32 * SCALE, 12 * SCALE)) == tuple(round((255 + part) / 2) for part in MARK)
    assert found.getpixel((2, 2)) == (255, 255, 255)


def test_words_and_lines_leave_their_ink_where_they_stand() -> None:
    items = [Text(50, 20, "word", anchor="middle"), Text(90, 90, "up", upwards=True), Line(0, 50, 100, 50, "ink")]
    dark = np.asarray(opened(Drawing(100, 100, items, "")).convert("L")) < 128
    assert dark[: 30 * SCALE, 30 * SCALE : 70 * SCALE].any()
    assert dark[60 * SCALE :, 75 * SCALE :].any()
    assert dark[50 * SCALE].all()
    assert not dark[: 40 * SCALE, : 20 * SCALE].any()


def test_a_picture_of_numbers_lets_the_paper_through_where_they_are_zero() -> None:
    dots = np.asarray(Image.open(io.BytesIO(pixels_png(np.array([[0.0, 1.0, -1.0, np.nan]], np.float32)))))
    assert dots[0, :, 3].tolist() == [0, 255, 255, 0]
    assert tuple(dots[0, 1, :3]) == MARK
    assert tuple(dots[0, 2, :3]) == ImageColor.getrgb(COLOURS["minus"][0])


def test_letters_that_the_font_lacks_do_not_stop_it() -> None:
    assert opened(Drawing(100, 30, [Text(5, 20, "机の上 \x00 \ud800 😀")], "")).size == (200, 60)


def test_our_own_signs_are_spelt() -> None:
    ours, spelt = (png(Drawing(100, 30, [Text(5, 20, text)], "")) for text in ("a → √3", "a -> sqrt 3"))
    assert ours == spelt


def test_a_huge_drawing_is_scaled_down() -> None:
    assert max(opened(Drawing(MAX_SIDE, 10, [], "")).size) == MAX_SIDE


def test_a_large_heat_map_is_drawn_too() -> None:
    names = [str(i) for i in range(60)]
    assert opened(heat_map(torch.ones(60, 60), names, names, title="x")).getpixel((600, 600)) == MARK
