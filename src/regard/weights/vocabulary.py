"""The tokenizers that come with a model."""

from pathlib import Path

from regard.text.gguf_vocabulary import from_metadata
from regard.text.load import load_pair
from regard.text.tokenizer import Tokenizer
from regard.weights.store import home_of


def tokenizers_of(path: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of source and target; the same one twice where there is one. An adapter may have its own, else its model's."""
    if not (path / "tokenizer.json").exists():
        path = home_of(path)
    if path.is_dir():
        return load_pair(path)
    from regard.weights.gguf import read_gguf  # slow to import, and only GGUF files need it

    only = from_metadata(read_gguf(path).metadata)
    return only, only
