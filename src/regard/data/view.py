"""How a model sees a picture: its size, its channels, and what number black and white are.

On disk it is Hugging Face's preprocessor_config.json, so what we train sees the same in transformers.
"""

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import require
from regard.errors import UserError
from regard.files import read_json_object, write_json

FILE = "preprocessor_config.json"
MOST_PIXELS = 64_000_000
"Of a picture before it is made smaller: 64 megapixels take 256 MB; more is a mistake or an attack."
RESAMPLE = {0: "nearest", 1: "Lanczos", 2: "bilinear", 3: "bicubic"}
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "ICO")
"Pillow knows forty, some of which start other programs."
PLAIN = "save it as a PNG or JPEG with 8 bits, grey or RGB"


@dataclass(frozen=True)
class View:
    size: tuple[int, int]
    "Height and width that the model takes."
    channels: int = 3
    mean: tuple[float, ...] = ()
    "Subtracted, white being 1; a half where nothing is said."
    std: tuple[float, ...] = ()
    resize: tuple[int, int] = (0, 0)
    "To what it is resized before the middle is cut out; (0, 0) is the size itself."
    resample: int = 2

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            values = getattr(self, name) or (0.5,) * self.channels
            require(len(values) == self.channels, f"{name} has {len(values)} numbers for {self.channels} channels")
            object.__setattr__(self, name, tuple(values))
        require(self.channels in (1, 3), f"a picture with {self.channels} channels", "expected 1 (grey) or 3 (RGB)")
        require(self.resample in RESAMPLE, f"resample is {self.resample}", f"expected one of {RESAMPLE}")
        require(0 not in self.std, "std holds a zero", "expected what pixels are divided by, for example 0.5")

    @property
    def rules(self) -> dict[str, object]:
        """What decides the stored pixels; what is done to them later does not."""
        return {key: value for key, value in asdict(self).items() if key not in ("mean", "std")}

    def see(self, data: bytes) -> np.ndarray:
        """(channels, height, width) of bytes, from a picture file; what cannot be seen rightly is refused."""
        return self.of(decoded(data))

    def of(self, image: Any) -> np.ndarray:
        """The same from a picture of Pillow."""
        image = image.convert("L" if self.channels == 1 else "RGB")
        height, width = self.size if self.resize == (0, 0) else self.resize
        if image.size != (width, height):
            image = image.resize((width, height), self.resample)
        top, left = (height - self.size[0]) // 2, (width - self.size[1]) // 2
        pixels = np.asarray(image).reshape(height, width, self.channels)
        return pixels[top : top + self.size[0], left : left + self.size[1]].transpose(2, 0, 1)

    def normal(self, pixels: np.ndarray) -> np.ndarray:
        """(B, channels, height, width) of bytes to the numbers that enter the model."""
        mean, std = (np.array(values, dtype=np.float32).reshape(-1, 1, 1) for values in (self.mean, self.std))
        return (pixels.astype(np.float32) / np.float32(255) - mean) / std

    def save(self, folder: Path) -> None:
        height, width = self.size if self.resize == (0, 0) else self.resize
        settings: dict[str, Any] = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": height, "width": width},
            "resample": self.resample,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
            "do_convert_rgb": self.channels == 3,
        }
        if self.resize not in ((0, 0), self.size):
            crop = {"height": self.size[0], "width": self.size[1]}
            settings |= {"do_center_crop": True, "crop_size": crop, "image_processor_type": "DeiTImageProcessor"}
        write_json(folder / FILE, settings)


def read_view(folder: Path, size: tuple[int, int], channels: int) -> View:
    """Of a model of this size; where the file is absent, as ViT was trained."""
    path = folder / FILE
    if not path.is_file():
        return View(size, channels)
    theirs = read_json_object(path)
    off = [key for key in ("do_resize", "do_rescale", "do_normalize") if theirs.get(key, True) is False]
    require(not off, f"{path}: {', '.join(off)} is false, which is not supported", "expected true")
    factor = theirs.get("rescale_factor", 1 / 255)
    require(factor in (1 / 255, 0.00392156862745098), f"{path}: rescale_factor is {factor}", "expected 1/255")
    resize = _sides(theirs.get("size", list(size)), path) if theirs.get("do_center_crop") else (0, 0)
    require(resize == (0, 0) or min(np.subtract(resize, size)) >= 0, f"{path}: size is smaller than crop_size")
    mean, std = (_numbers(theirs, key, channels, path) for key in ("image_mean", "image_std"))
    return View(size, channels, mean, std, resize, int(theirs.get("resample", 2)))


def _sides(value: Any, path: Path) -> tuple[int, int]:
    if isinstance(value, dict):
        value = [value.get("height"), value.get("width")]
    sides = [value, value] if isinstance(value, int) else value
    good = isinstance(sides, Sequence) and all(isinstance(side, int) and 0 < side <= 4096 for side in sides)
    require(good, f"{path}: size is {value}", 'expected {"height": 224, "width": 224}')
    return sides[0], sides[1]


def _numbers(theirs: dict[str, Any], key: str, channels: int, path: Path) -> tuple[float, ...]:
    values = theirs.get(key) or [0.5] * channels
    good = isinstance(values, list) and all(isinstance(value, int | float) for value in values)
    require(good, f"{path}: {key} is {values}", "expected a number for each channel")
    return tuple(values)


def decoded(data: bytes) -> Any:
    """A picture of Pillow with 8 bits, grey or colours. The header is looked at before memory is taken."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not data:
        raise UserError("the file is empty", "it may not have been copied whole; get it again")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check(image)
            image.load()
            return ImageOps.exif_transpose(image)
    except (UserError, MemoryError):
        raise
    except UnidentifiedImageError as error:
        raise UserError("it is not a picture that can be read, or its beginning is damaged", PLAIN) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(f"it is too large: {error}", "make it smaller before it is read") from error
    except Exception as error:  # a stranger's file: each of thirty decoders has complaints of its own
        raise UserError(f"it is damaged or cut short ({error})", "get the file again") from error


def _check(image: Any) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        what = f"it has {width:,} x {height:,} pixels, more than {MOST_PIXELS:,}"
        raise UserError(what, "make it smaller before it is read")
    if getattr(image, "n_frames", 1) > 1:
        raise UserError(f"it is animated or has {image.n_frames} pages", "save the one that is meant as a PNG")
    if image.mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX"):
        kinds = {"CMYK": "in the colours of print (CMYK)", "I": "of 32 bits", "F": "of floating-point numbers"}
        kind = kinds.get(image.mode, "of 16 bits" if image.mode.startswith("I;16") else f"of the mode {image.mode}")
        raise UserError(f"it is {kind}", PLAIN)
