"""A capture: what was looked at and what was seen, as one JSON object that needs no model to be shown again.

    {"schema": "regard-capture/1", "tool_version", "model": {layout, family, sizes, config_sha256, n_parameters},
     "request": what was asked, "tokens": {"source", "target", "written"}, "payloads": [{"type", ...}, ...]}

It is what an export holds, what the page draws, and what a test compares. A payload is the `to_dict` of a result. Small
vectors are lists of numbers with nine digits, which is all that float32 has; large matrices are packed.
"""

import base64
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from regard import __version__
from regard.inspection.reading import Reading
from regard.inspection.summary import family_of

SCHEMA = "regard-capture/1"
"Its number changes when an older reader would misread."
TYPES: dict[str, str] = {"f32": "<f4", "u8": "|u1"}
SIZES = (
    *("d_model", "d_embed", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff", "n_decoder_layers"),
    *("n_decoder_heads", "vocab_size", "target_vocab_size", "max_len", "image_size", "patch_size"),
)


def digits(values: Tensor) -> Any:
    """Nested lists; nine digits bring every float32 back."""
    return _rounded(values.detach().float().cpu().tolist())


def _rounded(value: Any) -> Any:
    return [_rounded(each) for each in value] if isinstance(value, list) else float(f"{value:.9g}")


def packed(values: Tensor, dtype: str = "f32") -> dict[str, Any]:
    """Bytes of a row-major array, the least significant first, as base64."""
    array = np.ascontiguousarray(values.detach().cpu().numpy()).astype(TYPES[dtype])
    return {"dtype": dtype, "shape": list(array.shape), "base64": base64.b64encode(array.tobytes()).decode("ascii")}


def identity(model: Any) -> dict[str, Any]:
    """Which model it was: enough to see that two captures are of the same."""
    filled = model.config.filled()
    plain = json.dumps(filled, default=_plain, ensure_ascii=True, sort_keys=True)
    return {
        "layout": model.config.layout,
        "family": family_of(model.config.layout),
        "sizes": {name: filled[name] for name in SIZES if filled.get(name) is not None},
        "config_sha256": hashlib.sha256(plain.encode("ascii")).hexdigest(),
    }


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)


def capture(
    reading: Reading | None, request: dict[str, Any], payloads: Sequence[dict[str, Any]], *, model: Any = None
) -> dict[str, Any]:
    """`request` is what was asked for, in the asker's words, so that it can be asked again.

    Without a reading it is of a `model`, or of neither: an exercise has no model.
    """
    model = model if reading is None else reading.model
    parts = ("source", "target", "written")
    sides = {} if reading is None else {name: getattr(reading, name) for name in parts}
    return {
        "schema": SCHEMA,
        "tool_version": __version__,
        "model": {} if model is None else identity(model),
        "request": request,
        "tokens": {name: side.to_dict() for name, side in sides.items() if side is not None},
        "payloads": list(payloads),
    }
