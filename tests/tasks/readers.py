"""Tiny models of transformers that read whole texts, each in a directory with a real vocabulary."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import torch
import transformers as hf

from parity import tiny

VOCABULARIES = {"roberta": "roberta_dir", "gpt2": "gpt2_dir", "llama": "gpt2_dir"}
"Where it is not BERT's."
TOKENIZERS: dict[str, dict[str, Any]] = {
    "llama": {"tokenizer_class": "GPT2Tokenizer"},
    "roberta": {"mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True}},  # as published
}


def save(directory: Path, name: str, vocabulary: Path, **options: Any) -> Any:
    """The model of this name in tests/parity/tiny.py, with a row for each token of the vocabulary."""
    for path in vocabulary.iterdir():
        if path.name != "config.json":
            shutil.copy(path, directory / path.name)
    if (extra := TOKENIZERS.get(name.split()[0])) is not None:
        (directory / "tokenizer_config.json").write_text(json.dumps(extra))
    cls, config = copy.deepcopy(tiny.ALL[name])
    config.vocab_size = 50_300 if "gpt2" in vocabulary_of(name) or "roberta" in vocabulary_of(name) else 30_522
    for key, value in options.items():
        setattr(config, key, value)
    torch.manual_seed(0)
    model = getattr(hf, cls)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(directory)
    return model


def vocabulary_of(name: str) -> str:
    return VOCABULARIES.get(name.split()[0], "bert_dir")
