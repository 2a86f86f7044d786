import gzip
from pathlib import Path

import pytest

from data.words import Writer, make_tokenizer
from regard.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return make_tokenizer()


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    """Writes a file by name; what ends in .gz is compressed."""

    def write(name: str, content: str | bytes) -> Path:
        data = content.encode("utf-8") if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write
