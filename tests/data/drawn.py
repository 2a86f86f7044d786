"""Small pictures, drawn here: a bright bar on one side of a dark square says its class."""

import io
import random
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

SIDES = ("bottom", "left", "right", "top")


def bar(side: str, chance: random.Random, size: int = 8, channels: int = 1) -> Image.Image:
    pixels = np.array([[chance.randrange(40) for _ in range(size)] for _ in range(size)], dtype=np.uint8)
    wide = size // 4
    place = {"top": np.s_[:wide], "bottom": np.s_[-wide:], "left": np.s_[:, :wide], "right": np.s_[:, -wide:]}[side]
    pixels[place] += np.uint8(180)
    return Image.fromarray(pixels if channels == 1 else np.stack([pixels] * 3, -1))


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def class_folder(folder: Path, count: int, *, channels: int = 1, seed: int = 0) -> Path:
    chance = random.Random(seed)
    for number in range(count):
        side = SIDES[number % len(SIDES)]
        (folder / side).mkdir(parents=True, exist_ok=True)
        bar(side, chance, channels=channels).save(folder / side / f"{number:04}.png")
    return folder


def caption_tar(path: Path, count: int, *, seed: int = 0) -> Path:
    """As many bars in the folder `seen` as in `held-out`, each with a caption beside it."""
    chance = random.Random(seed)
    with tarfile.open(path, "w") as tar:
        for number in range(count):
            side = SIDES[number % len(SIDES)]
            name = f"{'held-out' if number % 8 >= 4 else 'seen'}/{number:04}"
            for ending, data in (("png", encoded(bar(side, chance))), ("txt", f"a bar at the {side}".encode())):
                member = tarfile.TarInfo(f"{name}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path
