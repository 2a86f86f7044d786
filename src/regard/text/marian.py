"""Marian's three files: source.spm and target.spm split the text, vocab.json numbers the pieces.

The numbers of the sentencepiece models mean nothing here, and a piece that vocab.json lacks is unknown.
Multilingual models have the tokens >>pt<< and the like in vocab.json: they stand for the target language
when they begin the source text.
"""

from collections.abc import Mapping
from pathlib import Path

import tokenizers

from regard.errors import UserError
from regard.files import MAX_VOCABULARY, read_bytes
from regard.text import template
from regard.text.bytelevel import read_vocabulary
from regard.text.sentencepiece_core import core_of
from regard.text.sentencepiece_file import parse_sentencepiece
from regard.text.settings import Settings
from regard.text.tokenizer import Tokenizer

FILES = ("source.spm", "target.spm", "vocab.json")
ROLES = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}


def load_marian(directory: Path, settings: Settings) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target language."""
    files = {name: read_bytes(directory / name, MAX_VOCABULARY) for name in FILES}
    source = target = read_vocabulary(directory / "vocab.json")
    if settings.flag("separate_vocabs", False):
        name = "target_vocab.json"
        files[name] = read_bytes(directory / name, MAX_VOCABULARY)
        target = read_vocabulary(directory / name)
    return (_half(files, "source.spm", source, settings), _half(files, "target.spm", target, settings))


def _half(files: Mapping[str, bytes], spm: str, vocabulary: dict[str, int], settings: Settings) -> Tokenizer:
    special = {role: settings.roles[role].content if role in settings.roles else token for role, token in ROLES.items()}
    for role in ("unk", "eos"):
        if special[role] not in vocabulary:
            raise UserError(f"{settings.directory / 'vocab.json'} lacks {special[role]!r}, the {role} token")
    special = {role: token for role, token in special.items() if token in vocabulary}
    core = core_of(parse_sentencepiece(files[spm], str(settings.directory / spm)), find_control=False)
    languages = [token for token in vocabulary if token.startswith(">>") and token.endswith("<<")]
    found_whole = [*special.values(), *languages]
    core.add_tokens([tokenizers.AddedToken(token, normalized=False, special=True) for token in found_whole])
    template.ends(core, None, special["eos"])
    return Tokenizer(core, special=special, id_map=vocabulary, source=settings.directory, files=files)
