"""Pictures with captions, of our own making: `python tools/caption_data.py [TARGET] [--fashion FOLDER]`.

TARGET (by default ./data/captions) gets shapes-train.tar.gz and shapes-test.tar.gz: one or two coloured shapes in the
corners of a dark square, and one sentence that says so. Each shape lacks one colour in training; pictures of such pairs
are in the folder `held-out` of the test set, the others in `seen`. With --fashion, which holds Fashion-MNIST's idx
files, two real pictures side by side come too: fashion-train.tar.gz and fashion-test.tar.gz, where ten pairs of kinds
were never seen together. A number decides everything, so the same call draws the same files.
"""

import argparse
import gzip
import io
import math
import random
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {
    "red": (220, 40, 40), "green": (40, 190, 60), "blue": (60, 90, 235), "yellow": (235, 220, 50),
    "purple": (150, 60, 190), "orange": (245, 140, 30), "white": (235, 235, 235), "cyan": (60, 215, 225),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring")
CORNERS = ("top left", "top right", "bottom left", "bottom right")
HELD_OUT = {(list(COLOURS)[i], SHAPES[(i + 1) % len(SHAPES)]) for i in range(len(SHAPES))}
"Each shape lacks one colour, each time another."
CELL, FINE = 16, 4
"Pixels of a corner, and how many times finer it is drawn."
CLOTHES = ("a T-shirt", "trousers", "a pullover", "a dress", "a coat", "a sandal", "a shirt", "a sneaker", "a bag",
           "a boot")  # fmt: skip
APART = {(i, (3 * i + 2) % 10) for i in range(10)}
"Kinds, left and right, that are never seen together in training."

Drawn = tuple[str, Image.Image, str]
"Folder, picture, caption."


def draw_shape(draw: ImageDraw.ImageDraw, shape: str, colour: tuple[int, int, int], box: tuple[float, ...]) -> None:
    left, top, right, bottom = box
    x, y, third = (left + right) / 2, (top + bottom) / 2, (right - left) / 3
    if shape == "circle":
        draw.ellipse(box, fill=colour)
    elif shape == "ring":
        draw.ellipse(box, outline=colour, width=round(third * 0.7))
    elif shape == "square":
        draw.rectangle(box, fill=colour)
    elif shape == "triangle":
        draw.polygon([(x, top), (right, bottom), (left, bottom)], fill=colour)
    elif shape == "diamond":
        draw.polygon([(x, top), (right, y), (x, bottom), (left, y)], fill=colour)
    else:
        draw.rectangle((left, top + third, right, bottom - third), fill=colour)
        draw.rectangle((left + third, top, right - third, bottom), fill=colour)


def shapes(chance: random.Random, pairs: list[tuple[str, str]], must: list[tuple[str, str]]) -> tuple[Image.Image, str]:
    """One or two shapes out of `pairs`, of which one is out of `must`."""
    chosen = [chance.choice(must), *([chance.choice(pairs)] if chance.random() < 0.6 else [])]
    chance.shuffle(chosen)
    corners = sorted(chance.sample(range(len(CORNERS)), len(chosen)))
    ground = chance.randrange(10, 60)
    image = Image.new("RGB", (2 * CELL * FINE, 2 * CELL * FINE), (ground, ground, ground))
    draw, told = ImageDraw.Draw(image), []
    for (colour, shape), corner in zip(chosen, corners, strict=True):
        size = chance.uniform(0.55, 0.85) * CELL
        left, top = (side * CELL + chance.uniform(1, CELL - size - 1) for side in (corner % 2, corner // 2))
        shade = tuple(max(0, min(255, value + chance.randrange(-20, 21))) for value in COLOURS[colour])
        box = tuple(FINE * value for value in (left, top, left + size, top + size))
        draw_shape(draw, shape, (shade[0], shade[1], shade[2]), box)
        told.append(f"{'an' if colour == 'orange' else 'a'} {colour} {shape} at the {CORNERS[corner]}")
    return image.resize((2 * CELL, 2 * CELL), Image.Resampling.BOX), " and ".join(told)


def shape_set(count: int, seed: int, *, held_out: bool) -> Iterator[Drawn]:
    """With `held_out` every second picture has a pair that training lacks."""
    chance = random.Random(seed)
    every = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    seen = [pair for pair in every if pair not in HELD_OUT]
    for number in range(count):
        new = held_out and number % 2 == 1
        yield "held-out" if new else "seen", *shapes(chance, seen, sorted(HELD_OUT) if new else seen)


def read_idx(path: Path, header: int) -> np.ndarray:
    return np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=header)


def fashion_set(folder: Path, name: str, count: int, seed: int, *, held_out: bool) -> Iterator[Drawn]:
    images = read_idx(folder / f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte.gz", 8)
    of_kind = [np.flatnonzero(labels == kind).tolist() for kind in range(len(CLOTHES))]
    chance = random.Random(seed)
    seen = [(a, b) for a in range(10) for b in range(10) if (a, b) not in APART]
    for number in range(count):
        new = held_out and number % 2 == 1
        kinds = chance.choice(sorted(APART) if new else seen)
        two = np.concatenate([images[chance.choice(of_kind[kind])] for kind in kinds], axis=1)
        told = f"{CLOTHES[kinds[0]]} left of {CLOTHES[kinds[1]]}"
        yield "held-out" if new else "seen", Image.fromarray(two), told


def write_tar(path: Path, drawn: Iterator[Drawn]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with gzip.GzipFile(path, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for folder, image, caption in drawn:
            file = io.BytesIO()
            image.save(file, "PNG")
            for ending, data in (("png", file.getvalue()), ("txt", caption.encode())):
                member = tarfile.TarInfo(f"{folder}/{count:05}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            count += 1
    print(f"{path}: {count:,} pictures, the last: {caption}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", type=Path, nargs="?", default=Path("data/captions"))
    parser.add_argument("--fashion", type=Path, help="the folder of Fashion-MNIST's idx files")
    parser.add_argument("--count", type=int, default=20_000, help="pictures to learn from; a tenth as many to test")
    given = parser.parse_args()
    count, tenth = given.count, math.ceil(given.count / 10)
    write_tar(given.target / "shapes-train.tar.gz", shape_set(count, 1, held_out=False))
    write_tar(given.target / "shapes-test.tar.gz", shape_set(tenth, 2, held_out=True))
    if given.fashion:
        train = fashion_set(given.fashion, "train-20000", count, 3, held_out=False)
        write_tar(given.target / "fashion-train.tar.gz", train)
        test = fashion_set(given.fashion, "test-10000", tenth, 4, held_out=True)
        write_tar(given.target / "fashion-test.tar.gz", test)


if __name__ == "__main__":
    main()
