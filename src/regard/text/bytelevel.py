"""vocab.json + merges.txt: byte pair encoding over bytes (Radford et al. 2019): GPT-2, RoBERTa, BART."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from regard.errors import UserError
from regard.files import MAX_VOCABULARY, read_json_object, read_text
from regard.text import template
from regard.text.guard import guarded
from regard.text.settings import Added, Settings, add_tokens, check_class
from regard.text.tokenizer import Tokenizer

MAX_ID = 10_000_000
"Tables are made as long as the largest id: no vocabulary in use has a million tokens."

GPT_ROLES: dict[str, str | Added] = {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"}
ROBERTA_ROLES: dict[str, str | Added] = {
    "bos": "<s>",
    "eos": "</s>",
    "cls": "<s>",
    "sep": "</s>",
    "unk": "<unk>",
    "pad": "<pad>",
    "mask": Added("<mask>", lstrip=True),  # it stands for a word and the space before it
}

_CLASSES = ("GPT2", "Roberta", "Bart", "Longformer", "LED", "Blenderbot")


def load_byte_level(directory: Path, settings: Settings) -> Tokenizer:
    check_class(settings, _CLASSES, "vocab.json + merges.txt")
    vocabulary = read_vocabulary(directory / "vocab.json")
    merges = _read_merges(directory / "merges.txt")
    with guarded(f"reading vocab.json and merges.txt in {directory}"):
        core = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    prefix = settings.flag("add_prefix_space", False)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    core.decoder = decoders.ByteLevel()
    special = add_tokens(core, settings, ROBERTA_ROLES if "<s>" in vocabulary else GPT_ROLES)
    if "cls" in special and "sep" in special:
        template.cls_sep_sep(core, special["cls"], special["sep"], add_prefix_space=prefix)
    elif settings.flag("add_bos_token", False):
        template.ends(core, special.get("bos"), None)
    return Tokenizer(core, special=special, chat_template=settings.chat_template, source=settings.directory)


def read_vocabulary(path: Path) -> dict[str, int]:
    """A JSON object {token: id}, one token for each id."""
    return checked_vocabulary(read_json_object(path, MAX_VOCABULARY), str(path))


def checked_vocabulary(vocabulary: Mapping[str, Any], name: str) -> dict[str, int]:
    """`vocabulary` itself, once its ids are known to be small, whole and not shared."""
    token_of: dict[int, str] = {}
    for token, id in vocabulary.items():
        if type(id) is not int or not 0 <= id <= MAX_ID:
            raise UserError(f"token {token!r} has the id {id!r} in {name}, expected 0 to {MAX_ID:,}")
        if id in token_of:
            raise UserError(f"tokens {token_of[id]!r} and {token!r} share the id {id} in {name}")
        token_of[id] = token
    if not token_of:
        raise UserError(f"the vocabulary in {name} is empty")
    return dict(vocabulary)


def _read_merges(path: Path) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(read_text(path, MAX_VOCABULARY).replace("\r\n", "\n").split("\n"), start=1):
        if not line or line.startswith("#version"):
            continue
        left, space, right = line.partition(" ")
        if not left or not space or not right or " " in right:
            raise UserError(f"line {number} of {path} is {line[:80]!r}, expected two tokens and one space")
        if right.endswith("</w>"):
            raise UserError(f"{path} marks the ends of words with </w>; only byte-level merges are read")
        merges.append((left, right))
    return merges
