"""Opening a model takes the memory of its file and little more, and seconds."""

import time
from pathlib import Path

import pytest
import torch

from faults.refusal import measured
from regard.models.bert import BertConfig
from regard.models.gpt import GptConfig
from regard.models.registry import FAMILIES
from regard.weights.store import save_model

BERT = BertConfig(vocab_size=10_000, d_model=768, n_heads=12, d_ff=3072, n_layers=6, heads=("masked_lm",), pooler=None)
GPT2 = GptConfig(vocab_size=10_000, d_model=768, n_heads=12, d_ff=3072, n_layers=6)


@pytest.fixture(scope="module", params=["bert", "gpt"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 200 MB: as it is used (BERT), and to be turned over and cut on the way (GPT-2)."""
    path = tmp_path_factory.mktemp(request.param)
    save_model(FAMILIES[request.param].build(BERT if request.param == "bert" else GPT2), path)
    return path


@pytest.mark.parametrize("dtype", ["None", "torch.float32"])
def test_opening_takes_at_most_a_quarter_more_memory_than_the_file(directory: Path, dtype: str) -> None:
    size = (directory / "model.safetensors").stat().st_size
    assert 190e6 < size < 220e6
    start = time.perf_counter()
    use = "sum(float(parameter.sum()) for parameter in model.parameters())"  # every page is really read
    message, grown = measured(f"model = regard.load_model(sys.argv[1], dtype={dtype}); {use}", directory)
    assert not message
    assert 0.9 * size < grown < 1.25 * size
    assert time.perf_counter() - start < 30


def test_a_model_without_memory_reads_no_weight(directory: Path) -> None:
    _, grown = measured("regard.load_model(sys.argv[1], device='meta')", directory)
    assert grown < 40e6


def test_opening_without_use_reads_little(tmp_path: Path) -> None:
    """The file is mapped: what is not looked at is not read."""
    save_model(FAMILIES["bert"].build(BERT), tmp_path)
    _, grown = measured("regard.load_model(sys.argv[1])", tmp_path)
    assert grown < 60e6
    assert torch.get_default_dtype() == torch.float32
