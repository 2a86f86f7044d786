"""Whatever bytes are changed in a good file, it opens or is refused by our own error."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.gguf_vocabulary import from_metadata
from regard.weights.gguf import read_gguf
from regard.weights.store import load_model
from weights import gguf_files
from weights.checkpoints import save_tiny

EXAMPLES = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])

changes = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 255)), min_size=1, max_size=6)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def changed(raw: bytes, positions: list[tuple[int, int]], end: int) -> bytes:
    result = bytearray(raw)
    for position, value in positions:
        result[position % end] = value
    return bytes(result)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save_tiny(path)
    return path


@pytest.fixture(scope="module")
def restore(directory: Path) -> Callable[[], None]:
    good = {path: path.read_bytes() for path in directory.iterdir()}

    def write() -> None:
        for path, raw in good.items():
            path.write_bytes(raw)

    return write


@EXAMPLES
@given(positions=changes)
def test_changed_bytes_in_the_header_of_a_safetensors_file(
    directory: Path, restore: Callable[[], None], positions: list[tuple[int, int]]
) -> None:
    restore()
    path = directory / "model.safetensors"
    raw = path.read_bytes()
    path.write_bytes(changed(raw, positions, 8 + int.from_bytes(raw[:8], "little")))
    with contextlib.suppress(UserError):
        load_model(directory)


@EXAMPLES
@given(positions=changes)
def test_changed_bytes_in_config_json(
    directory: Path, restore: Callable[[], None], positions: list[tuple[int, int]]
) -> None:
    restore()
    path = directory / "config.json"
    path.write_bytes(changed(path.read_bytes(), positions, len(path.read_bytes())))
    with contextlib.suppress(UserError):
        load_model(directory)


@EXAMPLES
@given(data=st.data())
def test_other_values_in_config_json(directory: Path, restore: Callable[[], None], data: st.DataObject) -> None:
    restore()
    path = directory / "config.json"
    settings = json.loads(path.read_text())
    for key in data.draw(st.lists(st.sampled_from(sorted(settings)), min_size=1, max_size=3)):
        settings[key] = data.draw(junk)
    path.write_text(json.dumps(settings))
    with contextlib.suppress(UserError):
        load_model(directory)


@EXAMPLES
@given(index=junk)
def test_any_index_of_shards(directory: Path, restore: Callable[[], None], index: object) -> None:
    restore()
    (directory / "model.safetensors").unlink()
    for value in (index, {"weight_map": index}, {"weight_map": {"a": index}}):
        (directory / "model.safetensors.index.json").write_text(json.dumps(value))
        with pytest.raises(UserError):
            load_model(directory)
    (directory / "model.safetensors.index.json").unlink()


@EXAMPLES
@given(positions=changes)
def test_changed_bytes_in_the_header_of_a_gguf_file(
    tmp_path_factory: pytest.TempPathFactory, positions: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.gguf"
    if not hasattr(test_changed_bytes_in_the_header_of_a_gguf_file, "good"):
        gguf_files.write_llama(path)
        end = min(entry.start for entry in read_gguf(path).tensors.values())
        test_changed_bytes_in_the_header_of_a_gguf_file.good = (path.read_bytes(), end)
    raw, end = test_changed_bytes_in_the_header_of_a_gguf_file.good
    path.write_bytes(changed(raw, positions, end))
    with contextlib.suppress(UserError):
        load_model(path)
    with contextlib.suppress(UserError):
        from_metadata(read_gguf(path).metadata)


@EXAMPLES
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_no_reason_to_fall(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "bytes"
    folder.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes(raw)
    (folder / "model.gguf").write_bytes(b"GGUF\3\0\0\0" + raw)
    for source in (folder, folder / "model.gguf"):
        with pytest.raises(UserError):
            load_model(source)


def test_the_fuzzed_model_opens_when_nothing_is_changed(directory: Path, restore: Callable[[], None]) -> None:
    restore()
    assert torch.isfinite(load_model(directory)(torch.tensor([[1, 2]])).logits).all()
