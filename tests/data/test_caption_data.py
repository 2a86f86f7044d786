"""What tools/caption_data.py draws: the same each time, and never a pair in training that is to be new in the test."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from regard.data.corpus import read_rows
from regard.data.view import View

tool = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "tools" / "caption_data.py")))


def pairs(caption: str) -> set[tuple[str, ...]]:
    return {tuple(found) for found in re.findall(r"an? (\w+) (\w+) at", caption)}


def test_pairs_that_are_held_out_are_new_and_their_parts_are_not() -> None:
    train = [caption for _, _, caption in tool.shape_set(1500, 1, held_out=False)]
    seen = {pair for caption in train for pair in pairs(caption)}
    assert not seen & tool.HELD_OUT
    assert len(seen) == len(tool.COLOURS) * len(tool.SHAPES) - len(tool.HELD_OUT)
    for folder, _, caption in tool.shape_set(60, 2, held_out=True):
        assert bool(pairs(caption) & tool.HELD_OUT) == (folder == "held-out")
    assert {colour for colour, _ in seen} == {*tool.COLOURS}
    assert {shape for _, shape in seen} == {*tool.SHAPES}


def test_it_draws_the_same_again_and_what_it_says(tmp_path: Path) -> None:
    places = [tmp_path / folder / "a.tar.gz" for folder in "ab"]
    for place in places:
        tool.write_tar(place, tool.shape_set(40, 1, held_out=True))
    assert places[0].read_bytes() == places[1].read_bytes()
    for picture, caption, _ in read_rows(places[0]):
        pixels = View((32, 32)).see(picture.encode("latin-1")).astype(int)  # (3, 32, 32)
        bright = (pixels.max(0) > 120).reshape(2, 16, 2, 16).any((1, 3)).ravel()  # by corner
        assert [corner for corner, lit in zip(tool.CORNERS, bright, strict=True) if lit] == re.findall(
            r"at the (\w+ \w+)", caption
        )


def test_clothes_stand_side_by_side(data_dir: Path) -> None:
    folder = data_dir / "fashion_mnist"
    for place, image, caption in tool.fashion_set(folder, "test-10000", 20, 4, held_out=True):
        left, right = (tool.CLOTHES.index(name) for name in caption.split(" left of "))
        assert ((left, right) in tool.APART) == (place == "held-out")
        assert np.asarray(image).shape == (28, 56)
