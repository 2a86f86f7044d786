"""Tiny random models of transformers that tag and answer, with real vocabularies."""

import shutil
from pathlib import Path
from typing import Any

import torch
import transformers as hf

from tasks.span_readers import LABELS

MAX_LEN = 64
_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
_BERT = _SIZES | {"vocab_size": 30_522, "max_position_embeddings": MAX_LEN}
FAMILIES: dict[str, tuple[str, Any, str]] = {
    "bert": ("Bert", _BERT, "bert_dir"),
    "roberta": (
        "Roberta",
        _BERT | {"vocab_size": 50_261, "max_position_embeddings": MAX_LEN + 2, "type_vocab_size": 1},
        "roberta_dir",
    ),
    "distilbert": (
        "DistilBert",
        {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": MAX_LEN},
        "bert_dir",
    ),
    "electra": ("Electra", _BERT | {"embedding_size": 8}, "bert_dir"),
}


def make(family: str, task: str, vocabulary: Path, directory: Path) -> tuple[Any, Any]:
    """The model and its tokenizer, and both in a directory; `task` is TokenClassification or QuestionAnswering."""
    torch.manual_seed(1)
    name, sizes, _ = FAMILIES[family]
    labels = {"id2label": dict(enumerate(LABELS))} if task == "TokenClassification" else {}
    model = getattr(hf, f"{name}For{task}")(getattr(hf, f"{name}Config")(**sizes | labels)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.0 if key.endswith("bias") else 0.5))
    model.save_pretrained(directory)
    for path in vocabulary.iterdir():
        if path.name != "config.json":
            shutil.copy(path, directory)
    tokenizer = getattr(hf, "RobertaTokenizerFast" if family == "roberta" else "BertTokenizerFast")
    return model, tokenizer.from_pretrained(vocabulary)
