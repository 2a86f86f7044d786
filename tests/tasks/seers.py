"""Tiny models that see, fresh and without training, as directories."""

from pathlib import Path
from typing import Any

import torch

from data.drawn import SIDES
from regard.data.view import View
from regard.models.base import Model, initialise
from regard.models.captioner import Captioner, CaptionerConfig
from regard.models.convnet import Convnet, ConvnetConfig
from regard.models.vit import Vit, VitConfig
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig
from regard.text.train import train as train_tokenizer
from regard.weights.store import save_model

SIZES: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2, "image_size": (8, 8), "patch_size": 2}
SIZES |= {"channels": 1}


def fresh(model: Model, std: float = 0.3) -> Any:
    torch.manual_seed(0)
    initialise(model, "normal", std)
    return model.eval()


def saved(model: Model, folder: Path) -> Path:
    fresh(model)
    save_model(model, folder)
    View((8, 8), 1).save(folder)
    return folder


def vit_model() -> Vit:
    torch.manual_seed(0)
    return Vit(VitConfig(**SIZES, labels=SIDES))


def vit(folder: Path) -> Path:
    return saved(vit_model(), folder)


def convnet(folder: Path) -> Path:
    return saved(Convnet(ConvnetConfig(image_size=(8, 8), channels=1, widths=(8, 16), labels=SIDES)), folder)


def captioner_parts() -> tuple[Captioner, Tokenizer]:
    texts = [f"a bar at the {side}" for side in SIDES]
    settings = TokenizerConfig(kind="word", vocab_size=30, min_frequency=1)
    tokenizer = train_tokenizer(texts, settings, purpose="translation")
    ids = {"vocab_size": tokenizer.vocab_size, "pad_id": tokenizer.pad_id, "start_id": tokenizer.pad_id}
    ends = {"eos_ids": (tokenizer.eos_id,), "bos_id": None, "max_len": 16}
    decoder = {"n_decoder_layers": 2, "n_decoder_heads": 2, "d_decoder_ff": 32}
    torch.manual_seed(0)
    return Captioner(CaptionerConfig(**SIZES | ids | ends | decoder)), tokenizer


def captioner(folder: Path) -> Path:
    model, tokenizer = captioner_parts()
    saved(model, folder)
    tokenizer.save(folder)
    return folder
