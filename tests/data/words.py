"""A small tokenizer and texts that it splits."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers, processors

from regard.data.examples import Texts, TooLong
from regard.data.shards import Shards, prepare
from regard.text.tokenizer import Tokenizer

WORDS = [f"w{number}" for number in range(50)]
END, UNKNOWN, PAD = 0, 1, 2

Writer = Callable[[str, str | bytes], Path]


def make_tokenizer(*, n_extra: int = 0, end: bool = True) -> Tokenizer:
    """A vocabulary of the words w0 to w49, which ends each text with </s>."""
    tokens = ["</s>", "<unk>", "<pad>", *WORDS, *(f"x{number}" for number in range(n_extra))]
    core = tokenizers.Tokenizer(models.WordLevel({token: id for id, token in enumerate(tokens)}, unk_token="<unk>"))
    core.add_special_tokens(tokens[:3])
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if end:
        core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", END)])
    return Tokenizer(core, special={"eos": "</s>", "unk": "<unk>", "pad": "<pad>"})


def ids_of(text: str) -> list[int]:
    return [WORDS.index(word) + 3 for word in text.split()] + [END]


def sentence(chance: random.Random, *, longest: int = 12) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, longest)))


def pairs(count: int, *, seed: int = 0, longest: int = 12) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    return [(sentence(chance, longest=longest), sentence(chance, longest=longest)) for _ in range(count)]


def tsv(rows: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in rows)


def prepared(
    source: Any, both: Sequence[Tokenizer], folder: Path, *, max_len: int, too_long: TooLong = "drop", **rest: Any
) -> Shards:
    return prepare(source, Texts(both, max_len, too_long), folder, **rest)
