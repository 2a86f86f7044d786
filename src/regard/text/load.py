"""Opens the tokenizer of a model directory, whichever files it is kept in."""

from pathlib import Path

from regard.errors import UserError
from regard.text.bytelevel import load_byte_level
from regard.text.marian import load_marian
from regard.text.sentencepiece_dir import load_sentencepiece
from regard.text.settings import read_settings
from regard.text.tokenizer import Tokenizer
from regard.text.tokenizer_json import load_tokenizer_json
from regard.text.wordpiece import load_wordpiece

_PIECES = ("spiece.model", "tokenizer.model")

LOOKED_FOR = (
    "tokenizer.json",
    "source.spm + target.spm + vocab.json (Marian)",
    "vocab.json + merges.txt (GPT-2, RoBERTa)",
    "vocab.txt (BERT)",
    "spiece.model, tokenizer.model or one *.model (sentencepiece)",
)


def load(directory: Path) -> Tokenizer:
    """The directory's tokenizer; of two (Marian), the one of the source language."""
    return load_pair(directory)[0]


def load_pair(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target: the same object twice where there is one."""
    directory = Path(directory)
    if not directory.is_dir():
        raise UserError(f"{directory} is not a directory", "give the directory that holds the model's files")
    one = _load_one(directory)
    return (one, one) if isinstance(one, Tokenizer) else one


def _load_one(directory: Path) -> Tokenizer | tuple[Tokenizer, Tokenizer]:
    def has(*names: str) -> bool:
        return all((directory / name).exists() for name in names)

    settings = read_settings(directory)
    if has("tokenizer.json"):
        return load_tokenizer_json(directory / "tokenizer.json", settings)
    if has("source.spm", "target.spm", "vocab.json"):
        return load_marian(directory, settings)
    if has("vocab.json", "merges.txt"):
        return load_byte_level(directory, settings)
    if has("vocab.txt"):
        return load_wordpiece(directory / "vocab.txt", settings)
    pieces = _sentencepiece_file(directory)
    if pieces is not None:
        return load_sentencepiece(pieces, settings)
    raise UserError(f"no tokenizer in {directory}", "looked for " + "; ".join(LOOKED_FOR))


def _sentencepiece_file(directory: Path) -> Path | None:
    usual = [directory / name for name in _PIECES if (directory / name).exists()]
    found = usual or sorted(directory.glob("*.model"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UserError(f"{directory} has several sentencepiece models: {names}", f"keep one, as {_PIECES[0]}")
    return found[0] if found else None
