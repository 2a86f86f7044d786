"""Real vocabularies as the directories they come in, and real lines of many kinds to try them on."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import sentencepiece

from regard.text.load import load
from regard.text.sentencepiece_file import read_sentencepiece
from regard.text.tokenizer import Tokenizer

ODD_LINES = [
    "",
    " ",
    "   three spaces   inside and after   ",
    "tabs\t\tand\nnew\r\nlines\n\n\n",
    "It's they're I'LL we've 'quoted' don't",
    "3.14159 1,000,000 12345678901234567890 ١٢٣ ½ Ⅷ",
    "def f(x):\n    return {k: v**2 for k, v in x.items()}  # squares\n",
    "for (int i = 0; i < n; ++i) { a[i] <<= 2; } // C",
    "São João não é só coração, avó e avô: pão-de-açúcar às 8h30.",
    "naïve café, déjà vu — “quotes” … €5 £6 ¥7",
    "汉字和日本語の文章。한국어 문장입니다.",
    "Привет, мир! Ελληνικά العربية עברית हिन्दी ไทย",
    "😀 👩‍👩‍👧‍👦 🇵🇹 ❤️ 1️⃣",
    "https://example.org/a/b?c=d&e=%20#f user@example.org",
    "<s> </s> <pad> [CLS] [MASK] in a text",
    "e\u0301 o\u0303 decomposed; zero\u200bwidth; no\u00a0break; ideographic\u3000space",
    "ALLCAPS camelCase snake_case kebab-case",
    "a" * 300,
    "!?!?!? ... --- *** ### $$$ %%% ^^^ ~~~ ||| ```",
]

FILES = {
    "tatoeba_pt_en/valid.pt-en.tsv.gz": 200,
    "more_pt_en/python_docs/pairs.pt-en.tsv.gz": 100,
    "more_pt_en/tldr_pages/pairs.pt-en.tsv.gz": 100,
    "multi30k_de_en/val.de.gz": 50,
    "wikitext2_small/wiki.valid.raw.gz": 100,
    "prompt_injection/deepset_train.jsonl.gz": 50,
}


@pytest.fixture(scope="session")
def lines(data_dir: Path) -> list[str]:
    """About 600 lines: two languages and more, prose, numbers, commands, code, emoji, runs of spaces."""
    found = list(ODD_LINES)
    for name, count in FILES.items():
        every = gzip.decompress((data_dir / name).read_bytes()).decode("utf-8").split("\n")
        found += every[:: max(1, len(every) // count)][:count]
    return found


Maker = Callable[..., Path]


@pytest.fixture(scope="session")
def pieces_dir(data_dir: Path) -> Path:
    return data_dir / "tokenizers" / "sentencepiece"


@pytest.fixture(scope="session")
def t5_dir(make: Maker, pieces_dir: Path) -> Path:
    return make(spiece__model=(pieces_dir / "t5_spiece.model").read_bytes(), config__json={"vocab_size": 32128})


@pytest.fixture(scope="session")
def albert_dir(make: Maker, pieces_dir: Path) -> Path:
    return make(spiece__model=(pieces_dir / "albert_spiece.model").read_bytes())


@pytest.fixture(scope="session")
def marian_dir(make: Maker, pieces_dir: Path) -> Path:
    """Two sentencepiece models under one vocab.json that numbers them anew and lacks every 17th piece."""
    source, target = pieces_dir / "marian_pten_32k.spm", pieces_dir / "opus_mt_zh_source.model"
    pieces = [piece.text for path in (source, target) for piece in read_sentencepiece(path).pieces]
    kept = [piece for number, piece in enumerate(dict.fromkeys(pieces)) if number % 17]
    tokens = dict.fromkeys(["</s>", "<unk>", ">>pt<<", *kept, "<pad>"])
    return make(
        source__spm=source.read_bytes(),
        target__spm=target.read_bytes(),
        vocab__json={token: id for id, token in enumerate(tokens)},
        tokenizer_config__json={"source_lang": "pt", "target_lang": "zh"},
        config__json={"model_type": "marian"},
    )


@pytest.fixture(scope="session")
def smollm2_metadata(smollm2_file: Path) -> dict[str, Any]:
    """What the real GGUF file says about its tokenizer."""
    fields = gguf.GGUFReader(smollm2_file).fields
    return {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.")}


@pytest.fixture(scope="session")
def llama_metadata(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> dict[str, Any]:
    """A vocabulary of the kind of Llama 2: sentencepiece byte pairs with byte fallback."""
    folder = tmp_path_factory.mktemp("llama")
    (folder / "text").write_text("\n".join(line.replace("\r", " ") for line in lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "m"),
        model_type="bpe",
        vocab_size=1500,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        minloglevel=3,
    )
    pieces = read_sentencepiece(folder / "m.model").pieces
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [piece.text for piece in pieces],
        "tokenizer.ggml.scores": [piece.score for piece in pieces],
        "tokenizer.ggml.token_type": [int(piece.kind) for piece in pieces],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


KINDS = ["gpt2_dir", "roberta_dir", "bert_dir", "t5_dir", "albert_dir", "marian_dir", "minilm_dir"]


@pytest.fixture(scope="session", params=KINDS)
def any_directory(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture(scope="session")
def any_kind(any_directory: Path) -> Tokenizer:
    return load(any_directory)


@pytest.fixture(scope="session")
def gpt2(gpt2_dir: Path) -> Tokenizer:
    return load(gpt2_dir)


@pytest.fixture(scope="session")
def bert(bert_dir: Path) -> Tokenizer:
    return load(bert_dir)
