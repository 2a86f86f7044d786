"""vocab.txt: BERT's WordPiece (Wu et al. 2016; Devlin et al. 2018), one token per line, the line its id."""

from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.errors import UserError
from regard.files import MAX_VOCABULARY, read_text
from regard.text import template
from regard.text.guard import guarded
from regard.text.settings import Settings, add_tokens, check_class
from regard.text.tokenizer import Tokenizer

ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_CLASSES = ("Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert", "LayoutLM", "Lxmert")


def load_wordpiece(path: Path, settings: Settings) -> Tokenizer:
    check_class(settings, _CLASSES, "vocab.txt")
    vocabulary = _read(path)
    unknown = settings.roles["unk"].content if "unk" in settings.roles else ROLES["unk"]
    if unknown not in vocabulary:
        raise UserError(f"{path} has no line {unknown!r}, the unknown token", "is it a WordPiece vocabulary?")
    with guarded(f"reading {path}"):
        core = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    accents = settings.config.get("strip_accents")
    core.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
        strip_accents=accents if isinstance(accents, bool) else None,  # None: as lower case, as in 2018
        lowercase=settings.flag("do_lower_case", True),
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##")
    special = add_tokens(core, settings, ROLES)
    if "cls" in special and "sep" in special:
        template.cls_sep(core, special["cls"], special["sep"])
    return Tokenizer(core, special=special, chat_template=settings.chat_template, source=settings.directory)


def _read(path: Path) -> dict[str, int]:
    # Only \n ends a line: tokens may hold other separators, such as U+2028. Of a token that
    # stands twice the last line counts, as in transformers.
    lines = read_text(path, MAX_VOCABULARY).replace("\r\n", "\n").split("\n")
    vocabulary = {token: id for id, token in enumerate(lines) if token}
    if not vocabulary:
        raise UserError(f"{path} is empty", "it should hold one token per line")
    return vocabulary
