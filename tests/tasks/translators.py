"""Tiny translators with a real vocabulary: what comes out means nothing, but it comes out by the real way."""

from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from decoding.writers import loud
from models import tiny
from regard.models.recurrent import RecurrentConfig, build
from regard.tasks.translator import Translator
from regard.text.tokenizer import Tokenizer
from regard.weights.store import save_model

TEXT = """O livro está em cima da mesa. A casa é grande e a mesa é pequena.
The book is on the table. The house is big and the table is small."""
MAX_LEN = 40


@cache
def tokenizer() -> Tokenizer:
    """Byte pairs over the text above, about 90 of them; the padding is the last."""
    core = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=90, special_tokens=["</s>", "<unk>"]))
    core.add_special_tokens(["<pad>"])
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    return Tokenizer(core, special={"eos": "</s>", "unk": "<unk>", "pad": "<pad>"})


def model(name: str = "marian", *, seed: int = 0, max_len: int = MAX_LEN) -> Any:
    size = tokenizer().vocab_size
    ids: dict[str, Any] = {"vocab_size": size, "pad_id": size - 1, "start_id": size - 1, "eos_ids": (0,)}
    if name != "recurrent":
        return ending(loud(tiny.make(name, seed=seed, max_len=max_len, **ids), "cross."))
    torch.manual_seed(seed)
    config = RecurrentConfig(cell="gru", attention="additive", d_model=12, max_len=max_len, **ids)
    return ending(loud(tiny.shaken(build(config)), ""))


@torch.no_grad()
def ending(model: Any) -> Any:
    """Not every text runs into its limit."""
    bias = next((value for name, value in model.named_parameters() if name.endswith("unembed.bias")), None)
    if bias is not None:
        bias[0] += 2
    return model


def translator(name: str = "marian", **options: Any) -> Translator:
    return Translator(model(name, **options), tokenizer(), tokenizer())


def save(directory: Path, name: str = "marian", **options: Any) -> Path:
    save_model(model(name, **options), directory)
    tokenizer().save(directory)
    return directory
