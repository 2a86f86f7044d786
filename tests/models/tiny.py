"""Tiny models of every family: the presets in small sizes, with weights that leave nothing at zero or one."""

from dataclasses import replace
from typing import Any

import torch

from regard.layers.position import RopeScaling
from regard.models.base import Model, initialise
from regard.models.electra import Electra, ElectraConfig
from regard.models.registry import find_preset

VOCAB, LENGTH = 37, 24

_SMALL = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 4, "d_ff": 24, "n_layers": 2, "max_len": LENGTH}
_ONE_SIDE = _SMALL | {"bos_id": 1, "eos_ids": ()}  # the published ids are beyond so small a vocabulary
_SIDES = {"n_decoder_layers": 1, "n_decoder_heads": 2, "d_decoder_ff": 20, "pad_id": VOCAB - 1, "start_id": VOCAB - 1}
_BUCKETS = {"d_head": 6, "n_buckets": 8, "max_distance": 12, "pad_id": 0, "start_id": 0}
_PIXELS = {"image_size": (12, 16), "patch_size": 4, "labels": ("cat", "dog", "owl")}
_ROPE = RopeScaling(factor=4.0, original_max_len=16)

ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert-base", _SMALL),
    "bert tasks": ("bert-base", _SMALL | {"heads": ("classify", "tag", "span"), "labels": ("x", "y", "z")}),
    "bert local": ("bert-base", _SMALL | {"window": 2}),
    "roberta": ("roberta-base", _SMALL),
    "distilbert": ("distilbert-base", _SMALL),
    "electra": ("electra-small", _SMALL | {"d_embed": 8}),
    "electra generator": ("electra-small-generator", _SMALL | {"d_embed": 8, "d_model": 12, "n_heads": 2}),
}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("gpt", _ONE_SIDE),
    "gpt2": ("gpt2", _ONE_SIDE),
    "gpt2 local": ("gpt2", _ONE_SIDE | {"window": 2}),
    "llama": ("llama3.1-8b", _ONE_SIDE | {"n_kv_heads": 2, "rope_scaling": _ROPE}),
    "llama one key head": ("tinyllama-1.1b", _ONE_SIDE | {"n_kv_heads": 1, "d_head": 6}),
    "qwen2": ("qwen2-0.5b", _ONE_SIDE | {"n_kv_heads": 2}),
}
SEQ2SEQ: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer-base", _SMALL | _SIDES),
    "transformer untied": ("transformer-base", _SMALL | _SIDES | {"tie": "none", "target_vocab_size": VOCAB}),
    "marian": ("marian-base", _SMALL | _SIDES),
    "pegasus": ("pegasus-large", _SMALL | _SIDES),
    "bart": ("bart-base", _SMALL | _SIDES),
    "t5": ("t5-small", _SMALL | _BUCKETS),
    "t5 v1.1": ("t5-v1.1-small", _SMALL | _BUCKETS | {"n_decoder_layers": 1}),
}
IMAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("vit-base", {key: _SMALL[key] for key in ("d_model", "n_heads", "d_ff", "n_layers")} | _PIXELS)
}
IMAGES["vit local"] = ("vit-base", IMAGES["vit"][1] | {"window": 1, "n_layers": 1})
IMAGES["deit"] = ("deit-tiny", IMAGES["vit"][1])
IMAGES["perceiver"] = ("perceiver-tiny", IMAGES["vit"][1] | {"n_latents": 5})

TEXTS = ENCODERS | DECODERS
ALL = TEXTS | SEQ2SEQ | IMAGES


def config_of(name: str, **sizes: Any) -> Any:
    preset, small = ALL[name]
    return replace(find_preset(preset)[1], **small | sizes)


def make(name: str, *, seed: int = 0, **sizes: Any) -> Any:
    """A model ready to read, its weights random but always the same."""
    torch.manual_seed(seed)
    return shaken(find_preset(ALL[name][0])[0].build(config_of(name, **sizes)))


def make_electra_pair(**sizes: Any) -> Electra:
    torch.manual_seed(0)
    config = ElectraConfig(generator=config_of("electra generator", **sizes), discriminator=config_of("electra"))
    return shaken(Electra(config))


def shaken(model: Any) -> Any:
    """No bias stays zero and no norm stays one: a part left out, or in the wrong place, then shows."""
    assert isinstance(model, Model)
    initialise(model, std=0.2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()
