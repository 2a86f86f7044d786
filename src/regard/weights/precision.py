"""In how many bits the weights of a model are held, and which to take where nobody says.

Writing waits for memory: a token reads every weight. Half floats are half of the reading and change next to nothing;
eight bits are a quarter, and pay where regard's own library is compiled or the CPU multiplies them at once. A tiny
model stays in the caches and gains little: it keeps the numbers of its file.
"""

from pathlib import Path
from typing import Literal, get_args

import torch

from regard.config import require
from regard.errors import pick
from regard.layers.half import HalfWeight, has_kernel
from regard.layers.int8 import Int8Weight, largest_step
from regard.layers.native import native
from regard.weights.fit import Held
from regard.weights.store import home_of
from regard.weights.tensorfile import read_headers

Precision = Literal["auto", "fp32", "bf16", "fp16", "int8"]
KNOWN: dict[str, Precision] = {each: each for each in get_args(Precision)}
DTYPES: dict[str, Held] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": HalfWeight, "int8": Int8Weight}

LARGE, LARGE_HERE = 40_000_000, 8_000_000
"Bytes of weights on disk from which fewer bits are much faster: by PyTorch's kernels, and by the compiled library."
EIGHT_BITS = 127
"Where PyTorch's product can do only seven, texts drift from those in float32: that is for whoever asks for it."


def chosen(precision: str, path: Path, device: str = "cpu") -> Precision:
    """What `precision` means for the model at this path: `auto` looks at its size and at what the CPU multiplies."""
    found = pick(precision, KNOWN, "precision")
    if found == "auto" and device != "cpu":
        return "fp32"
    if found == "auto":
        own = native() is not None
        large = bytes_of(path) >= (LARGE_HERE if own else LARGE)
        if large and (own or largest_step() == EIGHT_BITS):
            return "int8"
        return "fp16" if (own or has_kernel()) and (large or is_lossless("fp16", path)) else "fp32"
    elsewhere = found not in ("fp16", "int8") or device == "cpu"
    require(elsewhere, f"{found} is for the CPU", "use bf16 or fp32 elsewhere")
    return found


def is_lossless(precision: Precision, path: Path) -> bool:
    """Whether the file itself holds no more than this."""
    home = home_of(path)
    if precision != "fp16" or not (home / "config.json").is_file() or home != path:
        return precision == "fp32"
    # Positions are added, not multiplied, and so stay as they are in either.
    return {entry.dtype for name, entry in read_headers(home).items() if "position" not in name} == {"F16"}


def bytes_of(path: Path) -> int:
    home = home_of(path)
    files = home.glob("*.safetensors") if home.is_dir() else [home]
    return sum(file.stat().st_size for file in files)
