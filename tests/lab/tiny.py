"""Tiny models of every kind, made from the published sizes, and the directories they are saved in."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.models.base import Model
from regard.models.registry import find_preset
from regard.weights.store import save_model

SMALL: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2}
IDS: dict[str, Any] = {"vocab_size": 60, "pad_id": 59, "start_id": 59}
GPT: dict[str, Any] = {**SMALL, "vocab_size": 60, "max_len": 32, "bos_id": 1, "eos_ids": (2,)}
BERT: dict[str, Any] = {**SMALL, "vocab_size": 60, "max_len": 32}
DECODER: dict[str, Any] = {"n_decoder_layers": 2, "n_decoder_heads": 2, "d_decoder_ff": 32}
LABELS = ("no", "yes", "perhaps")

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer-small", {**SMALL, **IDS, "n_decoder_layers": 2}),
    "t5": ("t5-small", {**SMALL, "vocab_size": 60, "d_head": 8}),
    "gpt2": ("gpt2", GPT),
    "llama": ("smollm2-135m", {**SMALL, "vocab_size": 60, "n_kv_heads": 1}),
    "bert": ("bert-base", {**BERT, "heads": ("masked_lm", "next_sentence")}),
    "vit": ("vit-tiny", {**SMALL, "image_size": (32, 32)}),
    "gru-additive": ("recurrent-gru-additive", {"d_model": 16, **IDS}),
    "lstm-lm": ("recurrent-lstm-lm", {"d_model": 16, **IDS}),
}
"The kinds that are broken on purpose: preset and what is changed in it."

ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2 that classifies": ("gpt2", {**GPT, "head": "classify", "labels": LABELS}),
    "gpt2 without a head": ("gpt2", {**GPT, "head": "none"}),
    "bert without a head": ("bert-base", {**BERT, "heads": ()}),
    "bert that finds answers": ("bert-base", {**BERT, "heads": ("span",), "pooler": None}),
    "bert of nine labels": ("bert-base", {**BERT, "heads": ("classify",), "labels": tuple("123456789")}),
    "bert that tags": ("bert-base", {**BERT, "heads": ("tag",), "pooler": None, "labels": LABELS}),
    "bert of one number": ("bert-base", {**BERT, "heads": ("classify",), "labels": ("value",)}),
    "roberta": ("roberta-base", BERT),
    "electra": ("electra-small", {**BERT, "d_embed": 8}),
    "deit": ("deit-tiny", {**SMALL, "image_size": (32, 32), "labels": LABELS}),
    "captioner": ("vit-gpt2", {**GPT, "image_size": (32, 32), **DECODER, "start_id": 1}),
    "convnet": ("convnet-small", {"widths": (8, 16), "n_blocks": 1}),
    "elmo": ("elmo-small", {"d_model": 16, "vocab_size": 60, "pad_id": 59}),
    "bart": ("bart-base", {**SMALL, "vocab_size": 60, "max_len": 32}),
    "rnn-dot": ("recurrent-rnn-dot", {"d_model": 16, "n_layers": 2, **IDS}),
    "lstm-classifier": ("recurrent-lstm-classifier", {"d_model": 16, **IDS}),
}
"Kinds with something of their own: other heads, fewer positions than the long text, ids that mean padding."


def make(name: str) -> Model:
    torch.manual_seed(0)
    preset, changes = (MODELS | ODD)[name]
    family, config = find_preset(preset)
    return family.build(replace(config, **changes))


def saved(name: str, folder: Path) -> tuple[Model, Path]:
    """A model and its directory."""
    model = make(name)
    save_model(model, folder / name)
    return model, folder / name
