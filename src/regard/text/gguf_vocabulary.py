"""The vocabulary inside a GGUF file, as ids of llama.cpp.

Two kinds: `gpt2`, byte-level byte pairs whose first split is named by `tokenizer.ggml.pre`, and `llama`,
sentencepiece byte pairs with scores. A split whose name is not below is refused: a wrong split gives
wrong ids, and the model answers nonsense. Left out: the kinds bert, t5, rwkv and plamo2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from regard.errors import UserError, pick
from regard.text import template
from regard.text.guard import guarded
from regard.text.sentencepiece_core import SPACE, decoder, merges_by_score
from regard.text.sentencepiece_file import Kind
from regard.text.tokenizer import Tokenizer

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_PUNCTUATION = r"[\p{P}\$\+<=>\^~\|]+"


def _llama3(digits: str) -> str:
    contraction = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    word, sign = r"[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*"
    return "|".join((contraction, word, digits, sign, r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"))


@dataclass(frozen=True)
class Split:
    """How a text is cut before byte pairs are merged: each pattern cuts what the one before left."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    "A piece that is a token as a whole is taken at once."
    add_bos: bool = False
    "Whether the text begins with bos where the file does not say."


_PLAIN = Split((_GPT2,))
_SINGLE_DIGITS = Split((r"\p{N}", _GPT2))
_LLAMA3 = Split((_llama3(r"\p{N}{1,3}"),), ignore_merges=True, add_bos=True)
_QWEN2 = Split((_llama3(r"\p{N}"),))

SPLITS: dict[str, Split] = {
    "default": Split((_PUNCTUATION, _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "gpt-2": _PLAIN,
    "phi-2": _PLAIN,
    "olmo": _PLAIN,
    "smollm": _SINGLE_DIGITS,
    "starcoder": _SINGLE_DIGITS,
    "refact": _SINGLE_DIGITS,
    "command-r": _SINGLE_DIGITS,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "stablelm2": _QWEN2,
}

_ROLES = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "pad": "padding_token_id",
    "sep": "seperator_token_id",  # so spelt in the format
    "cls": "cls_token_id",
    "mask": "mask_token_id",
}
_LLAMA_IDS = {"bos": 1, "eos": 2, "unk": 0}
_NO_ID = 0xFFFFFFFF


def from_metadata(metadata: Mapping[str, object]) -> Tokenizer:
    """`metadata` holds a file's keys and values as plain numbers, strings and lists."""
    tokens, kinds = _tokens(metadata)
    builders = {"gpt2": _gpt2, "llama": _llama}
    kind = str(_get(metadata, "model", "missing"))
    core, add_bos = pick(kind, builders, "GGUF tokenizer kind")(metadata, tokens)
    added = [_added(token, kinds[id]) for id, token in enumerate(tokens) if kinds[id] in _ADDED]
    with guarded("adding the special tokens"):
        core.add_tokens(added)
    special = _special(metadata, tokens, _LLAMA_IDS if kind == "llama" else {})
    template.ends(
        core,
        _needed(special, "bos") if _get(metadata, "add_bos_token", add_bos) else None,
        _needed(special, "eos") if _get(metadata, "add_eos_token", False) else None,
    )
    chat = metadata.get("tokenizer.chat_template")
    return Tokenizer(core, special=special, chat_template=chat if isinstance(chat, str) else None)


_ADDED = (Kind.UNKNOWN, Kind.CONTROL, Kind.USER_DEFINED)


def _added(token: str, kind: int) -> tokenizers.AddedToken:
    return tokenizers.AddedToken(token, normalized=False, special=kind != Kind.USER_DEFINED)


def _gpt2(metadata: Mapping[str, object], tokens: list[str]) -> tuple[tokenizers.Tokenizer, bool]:
    split = pick(str(_get(metadata, "pre", "default")), SPLITS, "GGUF pre-tokenizer (tokenizer.ggml.pre)")
    vocabulary = {token: id for id, token in enumerate(tokens)}
    merges = [_merge(line) for line in _list(metadata, "merges")]
    with guarded("building the vocabulary of the GGUF file"):
        core = tokenizers.Tokenizer(models.BPE(vocabulary, merges, ignore_merges=split.ignore_merges))
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split.patterns]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([*cuts, to_bytes])
    core.decoder = decoders.ByteLevel()
    return core, split.add_bos


def _llama(metadata: Mapping[str, object], tokens: list[str]) -> tuple[tokenizers.Tokenizer, bool]:
    scores = _list(metadata, "scores")
    if len(scores) != len(tokens):
        raise UserError(f"the GGUF file has {len(scores)} scores for {len(tokens)} tokens")
    vocabulary = {token: id for id, token in enumerate(tokens)}
    by_token = {token: float(score) for token, score in zip(tokens, scores, strict=True)}
    merges = merges_by_score(vocabulary, by_token, "the GGUF file")
    unknown = _special(metadata, tokens, _LLAMA_IDS).get("unk")
    with guarded("building the vocabulary of the GGUF file"):
        model = models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
        core = tokenizers.Tokenizer(model)
    prefix = bool(_get(metadata, "add_space_prefix", True))
    steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", SPACE)]
    core.normalizer = normalizers.Sequence([*steps, normalizers.Prepend(SPACE)] if prefix else steps)
    core.decoder = decoder(strip=prefix)
    return core, True


def _tokens(metadata: Mapping[str, object]) -> tuple[list[str], list[int]]:
    tokens = _list(metadata, "tokens")
    if not tokens or not all(isinstance(token, str) for token in tokens):
        raise UserError("the GGUF file has no list of tokens (tokenizer.ggml.tokens)")
    tokens = [token or f"[EMPTY_{id}]" for id, token in enumerate(tokens)]  # as llama.cpp names them
    if len(set(tokens)) < len(tokens):
        raise UserError("a token appears twice in the GGUF file (tokenizer.ggml.tokens)")
    kinds = _list(metadata, "token_type") or [int(Kind.NORMAL)] * len(tokens)
    if len(kinds) != len(tokens):
        raise UserError(f"the GGUF file has {len(kinds)} token types for {len(tokens)} tokens")
    return tokens, [int(kind) for kind in kinds]


def _merge(line: object) -> tuple[str, str]:
    left, _, right = str(line).partition(" ")
    if not left or not right:
        raise UserError(f"a merge of the GGUF file is {str(line)[:80]!r}, expected two tokens and one space")
    return left, right


def _special(metadata: Mapping[str, object], tokens: list[str], usual: Mapping[str, int]) -> dict[str, str]:
    found: dict[str, str] = {}
    for role, key in _ROLES.items():
        id = _get(metadata, key, usual.get(role, _NO_ID))
        if id == _NO_ID:
            continue
        if not isinstance(id, SupportsIndex) or not 0 <= index(id) < len(tokens):
            raise UserError(f"tokenizer.ggml.{key} is {id!r}, but ids run from 0 to {len(tokens) - 1}")
        found[role] = tokens[index(id)]
    return found


def _needed(special: Mapping[str, str], role: str) -> str:
    if role not in special:
        raise UserError(f"the GGUF file wants a {role} token around each text and names none")
    return special[role]


def _get(metadata: Mapping[str, object], key: str, default: Any) -> Any:
    value = metadata.get(f"tokenizer.ggml.{key}")
    return default if value is None else value


def _list(metadata: Mapping[str, object], key: str) -> list[Any]:
    value = _get(metadata, key, [])
    try:
        return list(value)
    except TypeError:
        raise UserError(f"tokenizer.ggml.{key} is {value!r}, expected a list") from None
