"""Damaged and hostile safetensors files are refused from their header, with the file's name, and soon."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from faults.refusal import measured, refused
from regard.weights.store import load_model, save_model
from weights.checkpoints import bits, change_json, save_tiny, tensors_of, write_safetensors

MIB = 2**20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_tiny(tmp_path)
    return tmp_path


@pytest.fixture
def weights(directory: Path) -> Path:
    return directory / "model.safetensors"


def header_of(weights: Path) -> tuple[dict[str, Any], bytes]:
    raw = weights.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def entry(shape: list[int], start: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


# B1 to B5: cut short


@pytest.mark.parametrize("size", [0, 2, 7, 8, 9, 100])
def test_a_file_cut_after_a_few_bytes_is_refused(weights: Path, size: int) -> None:
    weights.write_bytes(weights.read_bytes()[:size])
    with refused(weights, "not a whole safetensors file", "again"):
        load_model(weights.parent)


@pytest.mark.parametrize("claimed", [0, 1, 10**6, 2**31, 2**63, 2**64 - 1])
def test_a_header_that_claims_an_impossible_length_is_refused(weights: Path, claimed: int) -> None:
    weights.write_bytes(struct.pack("<Q", claimed) + weights.read_bytes()[8:])
    with refused(weights, f"{claimed:,}"):
        load_model(weights.parent)


@pytest.mark.parametrize("missing", [1, 4, 100])
def test_missing_data_is_refused(weights: Path, missing: int) -> None:
    weights.write_bytes(weights.read_bytes()[:-missing])
    with refused(weights, "not a whole safetensors file"):
        load_model(weights.parent)


# B6 to B15: a header that lies


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, id="overlap"),
        pytest.param({"a": entry([2], 0, 8), "b": entry([1], 12, 16)}, id="hole"),
        pytest.param({"a": entry([1], 0, 4)}, id="trailing bytes"),
        pytest.param({"a": entry([2**40, 2**40], 0, 16)}, id="product overflows"),
        pytest.param({"a": entry([4], 0, 16, "F33")}, id="unknown type"),
        pytest.param({"a": entry([-4], 0, 16)}, id="negative axis"),
        pytest.param({"a": entry([4], 16, 0)}, id="backwards"),
        pytest.param({"a": entry([3], 0, 16)}, id="shape and bytes differ"),
        pytest.param({"a": {"dtype": "F32", "shape": [4]}}, id="no offsets"),
        pytest.param({"a": 5}, id="no table"),
        pytest.param({"__metadata__": {"format": 5}, "a": entry([4], 0, 16)}, id="metadata of numbers"),
        pytest.param("[1, 2, 3]", id="a list"),
        pytest.param("null", id="null"),
        pytest.param('{"a":', id="cut JSON"),
        pytest.param(b"\xff\xfe{\x00}\x00", id="UTF-16"),
        pytest.param('{"a": ' + "[" * 900 + "]" * 900 + "}", id="not quite too deep"),
        pytest.param('{"a": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 16]}}', id="infinite axis"),
        pytest.param('{"a": {"dtype": "F32", "shape": [' + "9" * 5000 + '], "data_offsets": [0, 16]}}', id="huge axis"),
    ],
)
def test_a_header_that_lies_is_refused(weights: Path, header: Any) -> None:
    write_safetensors(weights, header, b"\0" * 16)
    with refused(weights):
        load_model(weights.parent)


def test_a_header_without_a_bottom_is_refused(weights: Path) -> None:
    write_safetensors(weights, '{"a": ' + "[" * 100_000, b"\0" * 16)
    with refused(weights, "nested too deeply", hint=False):
        load_model(weights.parent)


def test_a_tensor_that_stands_twice_in_the_header_is_refused(weights: Path) -> None:
    one = json.dumps(entry([4], 0, 16))
    write_safetensors(weights, f'{{"a": {one}, "a": {one}}}', b"\0" * 16)
    with refused(weights, "twice"):
        load_model(weights.parent)


@pytest.mark.parametrize("shape", [[2**40, 0], [0], [11, 8, 0]])
def test_a_tensor_of_no_bytes_and_any_shape_is_compared_with_the_model(weights: Path, shape: list[int]) -> None:
    tensors = load_file(weights)
    tensors["transformer.wte.weight"] = torch.zeros(0)
    save_file(tensors, weights)
    header, data = header_of(weights)
    header["transformer.wte.weight"]["shape"] = shape
    write_safetensors(weights, header, data)
    with refused(weights.parent, "transformer.wte.weight", f"has shape {shape}", "expected [11, 8]"):
        load_model(weights.parent)


def test_three_hundred_thousand_tensors_are_refused_without_being_looked_at(weights: Path) -> None:
    nothing = json.dumps(entry([0], 0, 0))
    write_safetensors(weights, "{" + ", ".join(f'"tensor.{i}": {nothing}' for i in range(300_000)) + "}")
    with refused(weights, "bytes", seconds=3):
        load_model(weights.parent)


def test_ninety_thousand_tensors_are_refused_by_their_number(weights: Path) -> None:
    write_safetensors(weights, {f"t{i}": entry([0], 0, 0) for i in range(90_000)})
    with refused(weights, "90,000 tensors", "at most 50,000"):
        load_model(weights.parent)


def test_forty_thousand_unknown_tensors_are_all_counted_in_seconds(weights: Path) -> None:
    write_safetensors(weights, {f"transformer.h.{i}.x": entry([0], 0, 0) for i in range(40_000)})
    with refused("40028 differences", "... and 40008 more"):
        load_model(weights.parent)


# B16: numbers that are none


def test_weights_that_are_not_numbers_are_kept_to_the_last_bit(weights: Path) -> None:
    tensors = load_file(weights)
    tensors["transformer.wte.weight"][0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    save_file(tensors, weights)
    ours = load_model(weights.parent).decoder.embed.token.weight
    assert bits(ours.detach()) == bits(tensors["transformer.wte.weight"])


# B23: the file and config.json do not fit


def test_all_differences_are_listed_at_once(weights: Path) -> None:
    tensors = load_file(weights)
    del tensors["transformer.ln_f.weight"]
    tensors["transformer.wpe.weight"] = torch.zeros(7, 8)
    tensors["transformer.h.1.ln_1.bias"] = torch.zeros(8, dtype=torch.int64)
    tensors["surprise.weight"] = torch.zeros(1)
    tensors["h.0.surprise.bias"] = torch.zeros(1)
    save_file(tensors, weights)
    with refused(
        weights.parent,
        "5 differences",
        "transformer.ln_f.weight is missing, expected [8]",
        "transformer.wpe.weight has shape [7, 8], expected [6, 8]",
        "transformer.h.1.ln_1.bias holds I64, expected one of F32",
        "surprise.weight is not part of the model",
        "h.0.surprise.bias is not part of the model",
        "config.json",
    ):
        load_model(weights.parent)


def test_more_differences_than_fit_the_screen_are_counted(weights: Path) -> None:
    save_file({f"surprise.{i}": torch.zeros(1) for i in range(100)}, weights)
    with refused("differences", "... and"):
        load_model(weights.parent)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint16, torch.complex64])
def test_numbers_of_another_kind_are_refused_by_name(weights: Path, dtype: torch.dtype) -> None:
    tensors = load_file(weights)
    tensors["transformer.wte.weight"] = tensors["transformer.wte.weight"].to(dtype)
    save_file(tensors, weights)
    with refused(weights.parent, "transformer.wte.weight holds", "expected one of F32"):
        load_model(weights.parent)


def test_a_second_copy_of_a_tied_table_is_no_difference(weights: Path) -> None:
    tensors = load_file(weights)
    save_file(tensors | {"lm_head.weight": tensors["transformer.wte.weight"].clone()}, weights)
    assert load_model(weights.parent).n_parameters == sum(t.numel() for t in tensors.values())


def test_sizes_are_checked_before_anything_is_allocated(weights: Path) -> None:
    change_json(weights.parent / "config.json", n_embd=2**20, n_inner=2**22, vocab_size=2**20, n_layer=100)
    message, grown = measured("regard.load_model(sys.argv[1])", weights.parent)
    assert "transformer.h.0.ln_1.weight has shape [8], expected [1048576]" in message
    assert grown < 200 * MIB


# Files that are none


def test_a_directory_in_place_of_the_file_is_refused(weights: Path) -> None:
    weights.unlink()
    weights.mkdir()
    with refused(weights, "it is not a file"):
        load_model(weights.parent)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(directory: Path, name: str) -> None:
    (directory / name).unlink()
    os.mkfifo(directory / name)
    with refused(directory / name, "not a file"):
        load_model(directory)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
def test_a_device_without_end_in_place_of_a_file_is_refused(directory: Path) -> None:
    (directory / "config.json").unlink()
    (directory / "config.json").symlink_to("/dev/zero")
    with refused(directory / "config.json", "not a file"):
        load_model(directory)


def test_a_directory_without_weights_says_what_was_expected(weights: Path) -> None:
    weights.unlink()
    with refused(weights.parent, "has no model.safetensors", "model.safetensors.index.json"):
        load_model(weights.parent)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt", "pytorch_model-00001-of-00002.bin"])
def test_a_pickle_is_not_opened_and_the_command_that_converts_it_is_named(weights: Path, name: str) -> None:
    weights.rename(weights.with_name(name))
    with refused(weights.parent, "pickle", f"regard convert {weights.parent} NEW_DIRECTORY --allow-pickle"):
        load_model(weights.parent)


def test_a_pickle_given_by_name_is_not_opened_either(weights: Path) -> None:
    pickle = weights.rename(weights.with_name("pytorch_model.bin"))
    with refused(pickle, "pickle", f"regard convert {pickle} NEW_DIRECTORY --allow-pickle"):
        load_model(pickle)


def test_pickled_metadata_of_a_distributed_checkpoint_is_never_read(weights: Path) -> None:
    """B21: such a directory has `.metadata` and `*.distcp` files, and both are pickles."""
    marker = weights.parent / "ran"
    evil = f"cposix\nsystem\n(S'touch {marker}'\ntR.".encode()
    weights.unlink()
    for name in (".metadata", "__0_0.distcp"):
        (weights.parent / name).write_bytes(evil)
    with refused(weights.parent, "has no model.safetensors"):
        load_model(weights.parent)
    assert not marker.exists()


# B24


def test_a_model_keeps_its_numbers_while_its_file_is_replaced(directory: Path) -> None:
    model = load_model(directory)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    other = load_model(directory)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(7.0)
    save_model(other, directory)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all((tensor == 7.0).all() for tensor in tensors_of(directory).values())


def test_changing_a_loaded_model_does_not_change_its_file(directory: Path) -> None:
    before = (directory / "model.safetensors").read_bytes()
    with torch.no_grad():
        for parameter in load_model(directory).parameters():
            parameter.add_(1.0)
    assert (directory / "model.safetensors").read_bytes() == before
