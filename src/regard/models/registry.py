"""All families by name: what they are, their published sizes, and how to build one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from regard.errors import pick
from regard.models import bert, electra, gpt, llama, recurrent, t5, transformer, vit
from regard.models.base import Model


@dataclass(frozen=True)
class Family:
    summary: str
    build: Callable[[Any], Model]
    presets: Mapping[str, Any]


FAMILIES: dict[str, Family] = {
    "transformer": Family(
        "encoder-decoder of 2017; Marian, Pegasus, BART", transformer.Transformer, transformer.PRESETS
    ),
    "t5": Family("encoder-decoder, every task as text to text", transformer.Transformer, t5.PRESETS),
    "bert": Family("encoder, masked words; RoBERTa, DistilBERT, MiniLM", bert.Bert, bert.PRESETS),
    "electra": Family("generator and discriminator, replaced tokens", bert.Bert, electra.PRESETS),
    "gpt": Family("decoder, next token; GPT, GPT-2, GPT-3", gpt.Gpt, gpt.PRESETS),
    "llama": Family("decoder with rotary positions; SmolLM2, TinyLlama, Qwen2", gpt.Gpt, llama.PRESETS),
    "vit": Family("encoder over image patches; DeiT", vit.Vit, vit.PRESETS),
    "recurrent": Family("RNN, LSTM and GRU, with and without attention", recurrent.build, recurrent.PRESETS),
}

PRESETS: dict[str, tuple[Family, Any]] = {
    name: (family, config) for family in FAMILIES.values() for name, config in family.presets.items()
}


def build_preset(name: str, *, device: str = "cpu") -> Model:
    """A fresh model of a published size; on the device `meta` it costs nothing, whatever the size."""
    family, config = pick(name, PRESETS, "preset", listing="regard list families")
    with torch.device(device):
        return family.build(config)
