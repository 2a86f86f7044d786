"""What the small files beside a vocabulary say: special tokens, added tokens, chat template.

They are Hugging Face's tokenizer_config.json, special_tokens_map.json, added_tokens.json,
chat_template.jinja and (for the size of the vocabulary and the class of the tokenizer) config.json. All may be
missing. Code that a file names (`auto_map`) is never run: a tokenizer here is made of data only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import tokenizers

from regard.errors import UserError
from regard.files import MIB, read_json_object, read_text
from regard.text.guard import guarded
from regard.text.tokenizer import ROLES

MAX_ADDED = 100_000
"Most tokens that may be added to a vocabulary."
MAX_TEMPLATE = 1 * MIB

D = TypeVar("D", bool, bool | None)


@dataclass(frozen=True)
class Added:
    """A token found in text before any splitting; `id` is where the file says it must be, if it does."""

    content: str
    id: int | None = None
    special: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False

    def for_core(self) -> tokenizers.AddedToken:
        return tokenizers.AddedToken(
            self.content,
            single_word=self.single_word,
            lstrip=self.lstrip,
            rstrip=self.rstrip,
            normalized=self.normalized,
            special=self.special,
        )


@dataclass(frozen=True)
class Settings:
    directory: Path
    config: dict[str, Any] = field(default_factory=dict)
    "tokenizer_config.json as it is."
    roles: dict[str, Added] = field(default_factory=dict)
    "The tokens the files name for pad, bos and so on."
    added: list[Added] = field(default_factory=list)
    "Further tokens, those with an id first and in its order."
    chat_template: str | None = None
    rows: int | None = None
    "Size of the model's vocabulary by config.json."
    tokenizer_class: str = ""
    "As tokenizer_config.json or config.json names it."
    model_type: str = ""
    "By config.json."

    def flag(self, name: str, default: D) -> bool | D:
        """A true-or-false setting; null means unsaid."""
        value = self.config.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UserError(f"{name} is {value!r} in {self.directory / CONFIG}, expected true or false")
        return value


CONFIG, SPECIAL_MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"


def read_settings(directory: Path) -> Settings:
    config = _optional(directory / CONFIG)
    special = _optional(directory / SPECIAL_MAP)
    roles = _roles(config, directory / CONFIG) | _roles(special, directory / SPECIAL_MAP)
    more = _more(special, directory / SPECIAL_MAP) + _more(config, directory / CONFIG)
    are_special = {token.content for token in (*roles.values(), *more)}  # however they are listed elsewhere
    added = [
        replace(token, special=token.special or token.content in are_special)
        for token in (*_numbered(config, directory), *more)
    ]
    if len(added) > MAX_ADDED:
        raise UserError(f"{len(added):,} added tokens in {directory}; at most {MAX_ADDED:,} are taken")
    model = _optional(directory / "config.json")
    rows, named = model.get("vocab_size"), config.get("tokenizer_class") or model.get("tokenizer_class")
    return Settings(
        directory,
        config,
        roles,
        added,
        _chat_template(config, directory),
        rows=rows if isinstance(rows, int) else None,
        tokenizer_class=str(named or ""),
        model_type=str(model.get("model_type") or ""),
    )


def _optional(path: Path) -> dict[str, Any]:
    return read_json_object(path) if path.exists() else {}


def _roles(data: Mapping[str, Any], path: Path) -> dict[str, Added]:
    found = {role: data.get(f"{role}_token") for role in ROLES}
    return {role: _token(value, path, f"{role}_token") for role, value in found.items() if value is not None}


def _token(value: object, path: Path, key: str, *, id: int | None = None, special: bool = True) -> Added:
    """A token is written as plain text or as an object with `content` and flags."""
    fields = {"content": value} if isinstance(value, str) else value
    content = fields.get("content") if isinstance(fields, dict) else None
    if not isinstance(content, str) or not content:
        raise UserError(f"{key} is {value!r} in {path}, expected a token that is not empty")
    assert isinstance(fields, dict)
    flags = {name: fields.get(name) is True for name in ("single_word", "lstrip", "rstrip", "normalized")}
    return Added(content, id, bool(fields.get("special", special)), **flags)


def _numbered(config: Mapping[str, Any], directory: Path) -> list[Added]:
    """Tokens with ids: `added_tokens_decoder` {id: token} of today, added_tokens.json {token: id} of old."""
    found: dict[int, Added] = {}
    decoder = config.get("added_tokens_decoder") or {}
    if not isinstance(decoder, dict):
        raise UserError(f"added_tokens_decoder in {directory / CONFIG} must be an object {{id: token}}")
    for key, value in decoder.items():
        id = int(key) if key.isdecimal() and len(key) < 10 else -1
        if id < 0:
            raise UserError(f"{key!r} in added_tokens_decoder of {directory / CONFIG} is not an id")
        found[id] = _token(value, directory / CONFIG, f"token {id}", id=id, special=False)
    for content, id in _optional(directory / ADDED).items():
        if type(id) is not int or id < 0:
            raise UserError(f"{content!r} has the id {id!r} in {directory / ADDED}")
        found.setdefault(id, _token(content, directory / ADDED, f"token {id}", id=id, special=False))
    return [found[id] for id in sorted(found)]


def _more(data: Mapping[str, Any], path: Path) -> list[Added]:
    values = data.get("additional_special_tokens") or data.get("extra_special_tokens") or []
    values = list(values.values()) if isinstance(values, dict) else values
    if not isinstance(values, list):
        raise UserError(f"additional_special_tokens in {path} must be a list of tokens")
    return [_token(value, path, "additional_special_tokens") for value in values]


def _chat_template(config: Mapping[str, Any], directory: Path) -> str | None:
    """A file of its own wins; a list of named templates means the one named default."""
    file = directory / "chat_template.jinja"
    if file.exists():
        return read_text(file, MAX_TEMPLATE)
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
    if template is not None and not isinstance(template, str):
        raise UserError(f"chat_template in {directory / CONFIG} must be text")
    return template


def check_class(settings: Settings, known: Collection[str], files: str) -> None:
    """Refuse a tokenizer class that uses the same files in another way, which the files do not tell."""
    name = str(settings.config.get("tokenizer_class") or "")
    if name.removesuffix("Fast").removesuffix("Tokenizer") not in {*known, "PreTrained", ""}:
        raise UserError(f"{settings.directory} asks for {name}, which {files} alone does not tell", ASK_FOR_JSON)


ASK_FOR_JSON = "add its tokenizer.json (transformers: AutoTokenizer.from_pretrained(...).save_pretrained(...))"


def add_tokens(core: tokenizers.Tokenizer, settings: Settings, roles: Mapping[str, str | Added]) -> dict[str, str]:
    """Give the core every token the files name; returns the tokens of the roles.

    `roles` are the usual names of this kind of vocabulary, taken where the files are silent and the
    vocabulary has them. A token that the files name and the vocabulary lacks is appended, as
    transformers does; whether the model has a row for it is `check_fits`'s question.
    """
    usual = {role: Added(token) if isinstance(token, str) else token for role, token in roles.items()}
    named = {role: token for role, token in usual.items() if core.token_to_id(token.content) is not None}
    named |= settings.roles
    known = {token.content for token in core.get_added_tokens_decoder().values()}
    for token in [*settings.added, *named.values()]:
        if token.content not in known:
            _add(core, token, settings.directory)
            known.add(token.content)
    return {role: token.content for role, token in named.items()}


def _add(core: tokenizers.Tokenizer, token: Added, directory: Path) -> None:
    with guarded(f"adding the token {token.content!r}"):
        core.add_tokens([token.for_core()])
    id = core.token_to_id(token.content)
    if token.id is not None and id != token.id:
        raise UserError(
            f"the files in {directory} number the token {token.content!r} {token.id}, but its place is {id}",
            "added tokens must follow the vocabulary without gaps",
        )
