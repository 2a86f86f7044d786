"""Real tokenizers of every kind, by name."""

from functools import cache
from pathlib import Path

import pytest

from regard.text.load import load
from regard.text.tokenizer import Tokenizer

KINDS = ("bert", "roberta", "t5", "albert", "minilm")


def directory(request: pytest.FixtureRequest, kind: str) -> Path:
    if kind not in ("t5", "albert"):
        found: Path = request.getfixturevalue(f"{kind}_dir")
        return found
    pieces: Path = request.getfixturevalue("data_dir") / "tokenizers" / "sentencepiece"
    made: Path = request.getfixturevalue("make")(spiece__model=(pieces / f"{kind}_spiece.model").read_bytes())
    return made


@cache
def opened(directory: Path) -> Tokenizer:
    return load(directory)
