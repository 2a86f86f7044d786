"""In how many bits the weights of a model are held, and which to take where nobody says.

Writing waits for memory: a token reads every weight, and eight bits are a quarter of the reading. A small model stays
in the caches and gains nothing from it, so it keeps its numbers.
"""

from pathlib import Path
from typing import Literal, get_args

import torch

from regard.config import require
from regard.errors import pick
from regard.layers.int8 import largest_step
from regard.weights.store import home_of

Precision = Literal["auto", "fp32", "bf16", "int8"]
KNOWN: dict[str, Precision] = {each: each for each in get_args(Precision)}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}

LARGE = 40_000_000
"Bytes of weights on disk from which eight bits are faster."
EIGHT_BITS = 127
"Where the CPU can do only seven, texts drift from those in float32: that is for whoever asks for it."


def chosen(precision: str, path: Path, device: str = "cpu") -> Precision:
    """What `precision` means for the model at this path: `auto` looks at its size and at what the CPU multiplies."""
    found = pick(precision, KNOWN, "precision")
    if found == "auto":
        good = device == "cpu" and largest_step() == EIGHT_BITS and bytes_of(path) >= LARGE
        return "int8" if good else "fp32"
    require(found != "int8" or device == "cpu", "int8 is for the CPU", "use bf16 or fp32 elsewhere")
    return found


def bytes_of(path: Path) -> int:
    home = home_of(path)
    files = home.glob("*.safetensors") if home.is_dir() else [home]
    return sum(file.stat().st_size for file in files)
