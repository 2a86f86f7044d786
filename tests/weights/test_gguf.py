"""GGUF files give the numbers that are in them, and become directories that open everywhere."""

from dataclasses import replace
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from regard.weights.gguf import read_gguf
from regard.weights.store import load_model, save_model
from weights import gguf_files
from weights.checkpoints import bits


def test_an_unquantised_file_gives_every_number_to_the_last_bit(tmp_path: Path) -> None:
    theirs = gguf_files.write_llama(tmp_path / "model.gguf")
    ours = load_model(tmp_path / "model.gguf")
    assert replace(ours.config, norm_eps=1e-5) == theirs.config  # the file has it in single precision
    for name, tensor in theirs.state_dict().items():
        assert bits(ours.state_dict()[name]) == bits(tensor), name


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1])
def test_a_quantised_file_gives_what_its_own_package_makes_of_it(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "model.gguf"
    gguf_files.write_llama(path, kind)
    ours = gguf_files.tensors_of(load_model(path))
    for tensor in gguf.GGUFReader(path).tensors:
        theirs = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert bits(ours[tensor.name]) == bits(torch.from_numpy(theirs.copy())), tensor.name


def test_the_metadata_are_what_their_own_package_reads(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    gguf_files.write_llama(path)
    theirs = {
        name: field.contents() for name, field in gguf.GGUFReader(path).fields.items() if not name.startswith("GGUF")
    }
    assert read_gguf(path).metadata == theirs


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, None])
def test_a_file_opens_in_the_type_that_is_asked_for(tmp_path: Path, dtype: torch.dtype | None) -> None:
    gguf_files.write_llama(tmp_path / "model.gguf", Kind.Q8_0)
    model = load_model(tmp_path / "model.gguf", dtype=dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype or torch.float32}


def test_an_opened_file_is_saved_as_a_directory_with_the_same_numbers(tmp_path: Path) -> None:
    gguf_files.write_llama(tmp_path / "model.gguf", Kind.Q4_1)
    ours = load_model(tmp_path / "model.gguf")
    save_model(ours, tmp_path / "saved")
    again = load_model(tmp_path / "saved")
    assert again.config.filled() == ours.config.filled()
    for name, tensor in ours.state_dict().items():
        assert bits(again.state_dict()[name]) == bits(tensor)


def test_a_file_whose_heads_have_a_width_of_their_own_opens(tmp_path: Path) -> None:
    wide = replace(gguf_files.LLAMA, d_head=16)
    model = gguf_files.write_llama(tmp_path / "narrow.gguf", config=wide)
    raw = gguf_files.metadata_of(wide) | {"llama.attention.key_length": gguf_files.Value(gguf_files.U32, 16)}
    places, data = [], b""
    for name, tensor in gguf_files.tensors_of(model).items():
        places.append(gguf_files.Place(name, tuple(reversed(tensor.shape)), Kind.F32, len(data)))
        data = gguf_files.aligned(data + bits(tensor.detach()))
    path = tmp_path / "wide.gguf"
    path.write_bytes(gguf_files.aligned(gguf_files.header(raw, places)) + data)
    assert load_model(path).config.head_width == 16
