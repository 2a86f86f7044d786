"""tokenizer.json: the `tokenizers` library's own file, read by it after our checks.

The library believes the file: it takes ids of four billion, one id for two tokens, a million added
tokens and steps that double the text forty times. These are refused here, before it starts.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from regard.errors import UserError
from regard.files import MAX_VOCABULARY, parse_json, read_text
from regard.text.bytelevel import checked_vocabulary
from regard.text.flags import with_flags
from regard.text.guard import guarded
from regard.text.settings import MAX_ADDED, Settings, add_tokens
from regard.text.tokenizer import Tokenizer

MAX_GROWTH = 1024
"How many times longer a file's normaliser or decoder may make a text; real ones stay below ten."
MAX_WORD = 1000
"Longest word that WordPiece tries to split, usually 100: its time grows with the cube."

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
    data = parse_json(text, str(path))
    _check(data, str(path))
    flagged = with_flags(data, settings)
    text = text if flagged == data else json.dumps(flagged)
    with guarded(f"reading {path}", "the file is damaged, or made by a newer version of tokenizers"):
        core = tokenizers.Tokenizer.from_str(text)
    _check_places(core, data.get("added_tokens") or [], str(path))
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
    _check_growth(data.get("normalizer"), f"the normaliser of {name}")
    _check_growth(data.get("decoder"), f"the decoder of {name}")
    longest = model.get("max_input_chars_per_word", 0)
    if not isinstance(longest, int) or longest > MAX_WORD:
        raise UserError(f"max_input_chars_per_word is {longest!r} in {name}, expected at most {MAX_WORD}")


def _check_added(added: Any, name: str) -> None:
    if not isinstance(added, list) or len(added) > MAX_ADDED:
        raise UserError(f"added_tokens of {name} must be a list of at most {MAX_ADDED:,} tokens")
    for token in added:
        if not isinstance(token, dict) or not token.get("content"):
            raise UserError(f"an added token of {name} is empty: {token!r}")


def _check_growth(steps: Any, name: str) -> None:
    growth = 1
    for content in _insertions(steps):
        growth *= max(1, len(content))
        if growth > MAX_GROWTH:
            raise UserError(f"{name} can make a text more than {MAX_GROWTH} times longer")


def _insertions(steps: Any) -> Iterator[str]:
    """What each step of a normaliser or decoder puts in place of a character, or in front."""
    if not isinstance(steps, dict):
        return
    for step in [*(steps.get("normalizers") or []), *(steps.get("decoders") or [])]:
        yield from _insertions(step)
    content = steps.get({"Replace": "content", "Prepend": "prepend"}.get(str(steps.get("type")), ""))
    if isinstance(content, str):
        yield content


def _check_places(core: tokenizers.Tokenizer, added: list[dict[str, Any]], name: str) -> None:
    """The library numbers added tokens by their order, whatever the file says."""
    for token in added:
        id = core.token_to_id(token["content"])
        if id != token.get("id"):
            raise UserError(
                f"{name} numbers the added token {token['content']!r} {token.get('id')}, but its place is {id}"
            )
