"""Opening a model takes the memory of its file and little more, and seconds."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.refusal import measured
from regard.models.bert import BertConfig
from regard.models.gpt import GptConfig
from regard.models.registry import FAMILIES
from regard.weights.store import save_model
from weights.checkpoints import save_tiny

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
    use = "sum(float(p.detach().sum()) for p in model.parameters())"  # every page is really read
    message, grown = measured(f"model = regard.load_model(sys.argv[1], dtype={dtype}); {use}", directory)
    assert not message
    assert 0.9 * size < grown < 1.25 * size
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize(("kind", "share"), [("int8", 0.25), ("half", 0.5)])
def test_opening_in_fewer_bits_never_holds_the_whole_file(directory: Path, kind: str, share: float) -> None:
    """What is rounded is read in parts: a quarter or a half of the file, and one part."""
    size = (directory / "model.safetensors").stat().st_size
    message, grown = measured(
        f"from regard.layers.{kind} import {kind.capitalize()}Weight; regard.load_model(sys.argv[1], "
        f"dtype={kind.capitalize()}Weight)",
        directory,
    )
    assert not message
    assert share * size < grown < (share + 0.25) * size


def test_opening_without_use_reads_little(directory: Path) -> None:
    """The file is mapped, and a model without memory reads no weight: what is not looked at is not read."""
    device = "cpu" if "bert" in directory.name else "meta"
    _, grown = measured(f"regard.load_model(sys.argv[1], device={device!r})", directory)
    assert grown < 20e6


def test_opening_does_not_import_the_compiler_of_torch(tmp_path: Path) -> None:
    """It takes two seconds and seventy megabytes, and one call without memory is enough to need it."""
    save_tiny(tmp_path)
    script = f"import sys, regard\nregard.load_model({str(tmp_path)!r})\nassert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_building_any_size_without_memory_does_not_either() -> None:
    script = (
        "import sys\nfrom regard.models.registry import FAMILIES, build_preset\n"
        "for family in FAMILIES.values():\n    for name in family.presets:\n"
        "        build_preset(name, device='meta')\n        assert 'torch._dynamo' not in sys.modules, name"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
