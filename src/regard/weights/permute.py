"""Reordering the residual stream.

Interleaved sinusoids (sin, cos, sin, cos ...) and half-split ones are the same positions in another order of the
width. The files that others read have the sines first, so a model with interleaved ones is saved with every
tensor's d_model axis reordered alike; it computes the same.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

_IN = re.compile(r".*\.(attn|cross)\.[qkv]\.weight|.*\.ffn\.(up|gate)\.weight|.*embed\.token\.weight|unembed\.weight")
_OUT = re.compile(r".*\.(attn|cross)\.o\.(weight|bias)|.*\.ffn\.down\.(weight|bias)|.*norm\.(weight|bias)")


def halves_first(tensors: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """The same encoder-decoder with its width in the order 0, 2, 4 ... 1, 3, 5 ..."""
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    result = dict(tensors)
    for name, tensor in tensors.items():
        if _IN.fullmatch(name):
            result[name] = tensor[:, order]  # reads the stream
        elif _OUT.fullmatch(name):
            result[name] = tensor[order]  # writes to the stream, or scales it
    return result
