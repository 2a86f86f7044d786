"""Tiny models of every family with something to read, also with their layers joined, also with padding."""

from dataclasses import replace
from typing import Any

import torch

from decoding import writers
from models import tiny
from regard.inspection.reading import Reading, Tokens, read_image

TRANSFORMERS = tiny.ALL
RECURRENT = ["gru dot", "lstm additive"]
ALL = [*TRANSFORMERS, *RECURRENT]


def tokens(ids: list[int], *, ends: bool = True) -> Tokens:
    names = tuple(f"w{id}" for id in ids)
    special = tuple(ends and i in (0, len(ids) - 1) for i in range(len(ids)))
    spans = tuple((3 * i, 3 * i + 2) for i in range(len(ids)))
    return Tokens(names, tuple(range(len(ids))), special, tuple(ids), spans)


def make(name: str, *, fused: bool = False, padding: int = 0) -> Reading:
    model: Any = writers.make(name, vocab=tiny.VOCAB) if name in RECURRENT else tiny.make(name)
    model = model.fuse() if fused else model
    torch.manual_seed(1)
    if name in tiny.IMAGES:
        return read_image(model, torch.randn(3, *model.config.image_size))
    source, target = tokens([5, 9, 2, 7, 9, 11, 3]), tokens([8, 3, 6, 8, 12], ends=False)
    if padding:
        source, target = (side.padded(len(side) + padding, 0) for side in (source, target))
    if name in tiny.DECODERS:
        return Reading(model, target=source)
    if name in tiny.ENCODERS:
        return Reading(model, source=source)
    start = model.config.start_id
    target = replace(target, ids=(start, *target.ids[1:]))
    return Reading(model, source, target)
