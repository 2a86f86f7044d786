"""Small checkpoints, honest and hostile, and what it takes to compare and to watch them."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.models.gpt import Gpt, GptConfig
from regard.weights.store import load_model, save_model

TINY = GptConfig(vocab_size=11, bos_id=None, eos_ids=(), d_model=8, n_heads=2, d_ff=12, n_layers=2, max_len=6)


def save_tiny(directory: Path, config: GptConfig = TINY, dtype: torch.dtype = torch.float32) -> Gpt:
    """A GPT-2 of a few hundred numbers, saved; the model itself is returned."""
    torch.manual_seed(0)
    model = Gpt(config).to(dtype)
    save_model(model, directory)
    return model


def tensors_of(directory: Path) -> dict[str, Tensor]:
    """Every tensor of a directory under its name in the files."""
    found: dict[str, Tensor] = {}
    for file in sorted(directory.glob("*.safetensors")):
        found |= load_file(file)
    return found


def bits(tensor: Tensor) -> bytes:
    """What is compared where equal means equal to the last bit, NaN included."""
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def change_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def write_safetensors(path: Path, header: Mapping[str, Any] | str | bytes, data: bytes = b"") -> None:
    """Whatever header one likes, before whatever bytes."""
    raw = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)


def fill_and_save(source: Path, directory: Path, values: list[float], started: Any) -> None:
    """Save the model again and again, all its numbers one of `values`, until someone ends this process."""
    model = load_model(source)
    started.set()
    while True:
        for value in values:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.fill_(value)
            save_model(model, directory)
