"""A directory with a sentencepiece model: T5, ALBERT, Llama 1 and 2.

What stands around a text follows from the special pieces, not from a model's name: [CLS] and [SEP]
make ALBERT's template; an end but no beginning is T5's; a beginning and an end are Llama's.
"""

from pathlib import Path

import tokenizers
from tokenizers import normalizers

from regard.errors import UserError
from regard.text import template
from regard.text.sentencepiece_core import core_of
from regard.text.sentencepiece_file import Kind, SentencePieceModel, read_sentencepiece
from regard.text.settings import ASK_FOR_JSON, MAX_ADDED, Settings, add_tokens, check_class
from regard.text.tokenizer import Tokenizer

_CLASSES = ("T5", "MT5", "Albert", "Llama")

SENTINELS = 100
"T5 marks what it left out of a text with <extra_id_0> to <extra_id_99>."


def load_sentencepiece(path: Path, settings: Settings) -> Tokenizer:
    model = read_sentencepiece(path)
    _check_numbering(path, model, settings)
    roles = _roles(model)
    core = _core(model, settings, bert_like="cls" in roles)
    _add_sentinels(core, _sentinels(model, settings, roles))
    special = add_tokens(core, settings, roles)
    _wrap(core, settings, special)
    return Tokenizer(core, special=special, chat_template=settings.chat_template, source=settings.directory)


def _check_numbering(path: Path, model: SentencePieceModel, settings: Settings) -> None:
    """Some models shift the ids of their pieces (Pegasus, XLM-R) or wrap texts otherwise (XLNet)."""
    check_class(settings, _CLASSES, path.name)
    shifted = "mask_token_sent" in settings.config or settings.config.get("offset") or "bpe" in path.name
    if shifted or {"<cls>", "<sep>"} <= {piece.text for piece in model.pieces}:
        raise UserError(f"{settings.directory} uses the pieces of {path.name} in its own way", ASK_FOR_JSON)


def _roles(model: SentencePieceModel) -> dict[str, str]:
    control = {piece.text for piece in model.pieces if piece.kind is Kind.CONTROL}
    roles = {"unk": model.pieces[model.unk_id].text}
    for role in ("bos", "eos", "pad"):
        id = getattr(model, f"{role}_id")
        if id >= 0:
            roles[role] = model.pieces[id].text
    bert = {"cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return roles | {role: token for role, token in bert.items() if token in control}


def _core(model: SentencePieceModel, settings: Settings, *, bert_like: bool) -> tokenizers.Tokenizer:
    """ALBERT prepares its text further; whether it was lower-cased shows in the vocabulary itself."""
    cased = any(char.isupper() for piece in model.pieces if piece.kind is Kind.NORMAL for char in piece.text)
    lowercase = settings.flag("do_lower_case", bert_like and not cased)
    core = core_of(
        model, lowercase=lowercase, strip_accents=bert_like and not settings.flag("keep_accents", not lowercase)
    )
    if bert_like:
        quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        core.normalizer = normalizers.Sequence([*quotes, core.normalizer])
    return core


def _sentinels(model: SentencePieceModel, settings: Settings, roles: dict[str, str]) -> int:
    """How many: by the files, or by the first pieces: padding is 0, there is an end but no beginning."""
    named = sum(token.content.startswith("<extra_id_") for token in settings.added)
    stated = settings.config.get("extra_ids")
    if named or isinstance(stated, int):
        return min(named or int(stated or 0), MAX_ADDED)
    like_t5 = model.pad_id == 0 and "eos" in roles and "bos" not in roles and "cls" not in roles
    room = settings.rows is None or settings.rows >= len(model.pieces) + SENTINELS
    return SENTINELS if like_t5 and room else 0


def _add_sentinels(core: tokenizers.Tokenizer, count: int) -> None:
    """Numbered backwards: <extra_id_0> has the largest id."""
    names = [f"<extra_id_{number}>" for number in reversed(range(count))]
    core.add_tokens([tokenizers.AddedToken(name, normalized=False, special=True) for name in names])


def _wrap(core: tokenizers.Tokenizer, settings: Settings, special: dict[str, str]) -> None:
    if "cls" in special and "sep" in special:
        template.cls_sep(core, special["cls"], special["sep"])
        return
    bos, eos = special.get("bos"), special.get("eos")
    add_bos = settings.flag("add_bos_token", bos is not None)
    add_eos = settings.flag("add_eos_token", bos is None)
    template.ends(core, bos if add_bos else None, eos if add_eos else None)
