"""Word vectors whose sums are known."""

from pathlib import Path

import torch

from regard.models.wordvectors import WordVectorModel, WordVectorsConfig
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig, train
from regard.weights.store import save_model

PLANTED = {
    "man": (1, 0, 0, 0), "woman": (1, 1, 0, 0), "uncle": (0.2, 0, 1, 0), "aunt": (0.2, 1, 1, 0),
    "brother": (0.6, 0, 0.7, 0.3), "sister": (0.6, 1, 0.7, 0.3), "bank": (0, 0, 0, 1), "river": (0, 0.1, 0, 1),
}  # fmt: skip


def tokenizer() -> Tokenizer:
    return train(
        [" ".join(PLANTED)], TokenizerConfig("bare-word", 100, lowercase=True, min_frequency=1), purpose="words"
    )


def save(folder: Path) -> Path:
    words = tokenizer()
    config = WordVectorsConfig(vocab_size=words.vocab_size, d_model=4, pad_id=words.pad_id, bos_id=words.bos_id)
    model = WordVectorModel(config)
    for word, vector in PLANTED.items():
        id = words.id_of(word)
        assert id is not None
        model.vectors.weight.data[id] = torch.tensor(vector)
    save_model(model, folder)
    words.save(folder)
    return folder
