"""tokenizer.json: the `tokenizers` library's own file, read by it after our checks.

The library believes the file: it takes ids of four billion, one id for two tokens, a million added
tokens and normalisers that double the text forty times. These are refused here, before it starts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from regard.errors import UserError
from regard.text.bytelevel import checked_vocabulary
from regard.text.files import MAX_VOCABULARY, parse_json, read_text
from regard.text.guard import guarded
from regard.text.settings import MAX_ADDED, Settings, add_tokens
from regard.text.tokenizer import Tokenizer

MAX_GROWTH = 1024
"How many times longer a file's normaliser may make a text; real ones stay below ten."

# Where no settings file names the roles, tokens with these names have them.
_USUAL = {
    "pad": ("[PAD]", "<pad>"),
    "bos": ("<s>", "<|begin_of_text|>", "<bos>"),
    "eos": ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
}


def load_tokenizer_json(path: Path, settings: Settings) -> Tokenizer:
    text = read_text(path, MAX_VOCABULARY)
    _check(parse_json(text, str(path)), str(path))
    with guarded(f"reading {path}", "the file is damaged, or made by a newer version of tokenizers"):
        core = tokenizers.Tokenizer.from_str(text)
    special = add_tokens(core, settings, {} if settings.roles else _usual_roles(core))
    return Tokenizer(core, special=special, chat_template=settings.chat_template, source=settings.directory)


def _usual_roles(core: tokenizers.Tokenizer) -> dict[str, str]:
    special = {token.content for token in core.get_added_tokens_decoder().values() if token.special}
    found = {role: next((name for name in names if name in special), None) for role, names in _USUAL.items()}
    return {role: token for role, token in found.items() if token is not None}


def _check(data: Any, name: str) -> None:
    model = data.get("model") if isinstance(data, dict) else None
    if not isinstance(model, dict):
        raise UserError(f"{name} has no model in it, so it is not a tokenizer.json")
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):  # Unigram has a list instead, where places are ids
        checked_vocabulary(vocabulary, name)
    _check_added(data.get("added_tokens") or [], name)
    growth = 1
    for content in _insertions(data.get("normalizer")):
        growth *= max(1, len(content))
        if growth > MAX_GROWTH:
            raise UserError(f"the normaliser of {name} can make a text more than {MAX_GROWTH} times longer")


def _check_added(added: Any, name: str) -> None:
    if not isinstance(added, list) or len(added) > MAX_ADDED:
        raise UserError(f"added_tokens of {name} must be a list of at most {MAX_ADDED:,} tokens")
    for token in added:
        if not isinstance(token, dict) or not token.get("content"):
            raise UserError(f"an added token of {name} is empty: {token!r}")


def _insertions(normalizer: Any) -> Iterator[str]:
    """What each step of a normaliser puts in place of a character."""
    if not isinstance(normalizer, dict):
        return
    for step in normalizer.get("normalizers") or []:
        yield from _insertions(step)
    content = normalizer.get("content")
    if normalizer.get("type") == "Replace" and isinstance(content, str):
        yield content
