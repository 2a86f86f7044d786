"""Tiny encoders that tag and answer, with a vocabulary of letters: what they say means nothing, but it varies."""

from functools import cache
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any

import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers

from regard.models.bert import Bert, BertConfig, HeadName
from regard.tasks.answerer import Answerer
from regard.tasks.tagger import Tagger
from regard.text import template
from regard.text.tokenizer import Tokenizer
from regard.weights.store import save_model

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}
WORDS = ["the", "to", "of", "in", "who", "where", "san", "francisco", "obama", "president", "flew"]
LABELS = ("O", "B-person", "I-person", "B-place", "I-place")
MAX_LEN = 64


@cache
def tokenizer() -> Tokenizer:
    """WordPiece as BERT's: a few words whole, others letter by letter, and signs."""
    letters = [*ascii_lowercase, *digits, *".,!?'-"]
    tokens = [*SPECIAL.values(), *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    core = tokenizers.Tokenizer(models.WordPiece({token: id for id, token in enumerate(tokens)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.add_special_tokens(list(SPECIAL.values()))
    template.cls_sep(core, "[CLS]", "[SEP]")
    return Tokenizer(core, special=SPECIAL)


def model(head: HeadName, **sizes: Any) -> Bert:
    torch.manual_seed(3)
    small: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_layers": 2, "max_len": MAX_LEN} | sizes
    labels = LABELS if head == "tag" else ()
    made = Bert(BertConfig(vocab_size=tokenizer().vocab_size, heads=(head,), pooler=None, labels=labels, **small))
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.0 if key.endswith("bias") else 0.5))
    return made.eval()


def tagger(**more: Any) -> Tagger:
    return Tagger(model("tag").fuse(), tokenizer(), **more)


def answerer(**more: Any) -> Answerer:
    return Answerer(model("span").fuse(), tokenizer(), **more)


def save(directory: Path, head: HeadName) -> Path:
    save_model(model(head), directory)
    tokenizer().save(directory)
    return directory
