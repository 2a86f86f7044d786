"""Tiny models over a vocabulary of words, and a way to teach them a few sentences."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, processors
from torch.nn import functional

from models import tiny
from regard.models.base import initialise
from regard.tasks.filler import Filler
from regard.tasks.generator import Generator
from regard.text.tokenizer import Tokenizer
from regard.weights.store import save_model

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]", "eos": "[END]"}
END = 5


def vocabulary(texts: Sequence[str], *, around: bool) -> Tokenizer:
    """Every word of the texts, in small letters; `around` puts BERT's marks about a text."""
    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    ids = {token: id for id, token in enumerate([*SPECIAL.values(), *words])}
    core = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.add_special_tokens(list(SPECIAL.values()))
    if around:
        marks = [("[CLS]", 2), ("[SEP]", 3)]
        core.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    return Tokenizer(core, special=SPECIAL)


def generator(texts: Sequence[str], *, seed: int = 0) -> Generator:
    words = vocabulary(texts, around=False)
    sizes = {"vocab_size": words.vocab_size, "max_len": 96, "bos_id": END, "eos_ids": (END,), "d_model": 32}
    return Generator(tiny.make("gpt2", seed=seed, **sizes), words)


def filler(texts: Sequence[str], *, seed: int = 0) -> Filler:
    words = vocabulary(texts, around=True)
    sizes = {"vocab_size": words.vocab_size, "max_len": 96, "d_model": 32, "heads": ("masked_lm",), "pooler": None}
    return Filler(tiny.make("bert", seed=seed, **sizes), words)


def silenced(task: Any) -> Any:
    """Every weight zero: all words are alike to it."""
    with torch.no_grad():
        for parameter in task.model.parameters():
            parameter.zero_()
    return task


def teach(task: Any, texts: Sequence[str], *, steps: int = 120) -> Any:
    """The texts, until it finds them likelier than others; from a quiet start, and without dropout."""
    model, masked = task.model, isinstance(task, Filler)
    torch.manual_seed(0)
    initialise(model, std=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    rows = task.tokenizer.encode_ids(texts, special=masked)
    # A likelihood is asked for behind a start, a continuation is not.
    rows = rows if masked else [[*start, *row, END] for row in rows for start in ([END], [])]
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])  # (B, T)
    valid = torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in rows])
    chance = torch.Generator().manual_seed(0)
    for _ in range(steps):
        if masked:
            at = valid & (torch.rand(ids.shape, generator=chance) < 0.25)
            logits, wanted = model(ids.masked_fill(at, 4), valid, at=at).heads["masked_lm"], ids[at]
        else:
            logits, wanted = model(ids, valid).logits[:, :-1][valid[:, 1:]], ids[:, 1:][valid[:, 1:]]
        logits = logits.dense() if hasattr(logits, "dense") else logits
        optimizer.zero_grad()
        functional.cross_entropy(logits, wanted).backward()
        optimizer.step()
    return task


def save(folder: Path, task: Any) -> str:
    save_model(task.model, folder)
    task.tokenizer.save(folder)
    return str(folder)
