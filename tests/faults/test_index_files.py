"""The index of a sharded model names files beside it, each once, all of them there; anything else is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
from safetensors.torch import load_file, save_file

from faults.refusal import refused
from regard.weights.store import load_model, save_model
from weights.checkpoints import bits, save_tiny, tensors_of

INDEX = "model.safetensors.index.json"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A tiny model in several shards."""
    save_model(save_tiny(tmp_path), tmp_path, shard_bytes=1000)
    assert len(shards(tmp_path)) > 2
    return tmp_path


def shards(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.safetensors"))


def rename(directory: Path, old: str, new: str) -> None:
    """The index calls the shard otherwise; the file stays."""
    index = json.loads((directory / INDEX).read_text())
    index["weight_map"] = {name: new if file == old else file for name, file in index["weight_map"].items()}
    (directory / INDEX).write_text(json.dumps(index))


def test_a_model_saved_in_shards_opens_here_with_the_same_bits(directory: Path, tmp_path_factory: Any) -> None:
    whole = tmp_path_factory.mktemp("whole")
    save_tiny(whole)
    assert not (directory / "model.safetensors").exists()
    ours = {name: bits(tensor) for name, tensor in load_model(directory).state_dict().items()}
    assert ours == {name: bits(tensor) for name, tensor in load_model(whole).state_dict().items()}


@pytest.mark.parity
def test_a_model_saved_in_shards_opens_in_transformers(directory: Path) -> None:
    theirs, report = hf.GPT2LMHeadModel.from_pretrained(directory, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert bits(theirs.transformer.wte.weight.detach()) == bits(tensors_of(directory)["transformer.wte.weight"])


def test_saving_in_one_file_again_leaves_no_index_that_would_win(directory: Path) -> None:
    model = load_model(directory)
    save_model(model, directory)
    assert not (directory / INDEX).exists()
    assert (directory / "model.safetensors").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../../x.safetensors",
        "..",
        ".",
        "",
        "/etc/passwd",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "..\\x.safetensors",
        "C:\\x.safetensors",
        "x.bin",
        "x.py",
        "x" * 5000 + ".safetensors",
        "x\0.safetensors",
    ],
)
def test_a_shard_that_is_not_a_plain_file_beside_the_index_is_refused(directory: Path, name: str) -> None:
    rename(directory, shards(directory)[0].name, name)
    with refused(directory / INDEX):
        load_model(directory)


def test_missing_shards_are_named(directory: Path) -> None:
    first, second, *_ = shards(directory)
    first.unlink()
    second.unlink()
    with refused(directory / INDEX, "2 shards are missing", first.name, second.name):
        load_model(directory)


def test_a_shard_that_links_to_a_file_elsewhere_is_refused(directory: Path, tmp_path_factory: Any) -> None:
    first = shards(directory)[0]
    elsewhere = tmp_path_factory.mktemp("elsewhere") / first.name
    first.rename(elsewhere)
    first.symlink_to(elsewhere)
    with refused(directory / INDEX, first.name, "link", elsewhere):
        load_model(directory)


def test_shards_that_link_into_the_store_of_the_hub_open(directory: Path, tmp_path_factory: Any) -> None:
    cache = tmp_path_factory.mktemp("hub") / "models--owner--name"
    snapshot = cache / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for number, file in enumerate(directory.iterdir()):
        blob = file.rename(cache / "blobs" / f"hash{number}")
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
    assert load_model(snapshot).n_parameters > 0


def test_a_tensor_that_stands_in_two_shards_is_refused(directory: Path) -> None:
    first, second, *_ = shards(directory)
    name, tensor = next(iter(load_file(first).items()))
    save_file(load_file(second) | {name: tensor.clone()}, second)
    with refused(directory / INDEX, name, first.name, second.name):
        load_model(directory)


def test_a_tensor_in_another_shard_than_the_index_says_is_refused(directory: Path) -> None:
    first, second, *_ = shards(directory)
    index = json.loads((directory / INDEX).read_text())
    name = next(name for name, file in index["weight_map"].items() if file == first.name)
    index["weight_map"][name] = second.name
    (directory / INDEX).write_text(json.dumps(index))
    with refused(directory / INDEX, name, first.name, second.name):
        load_model(directory)


def test_a_tensor_that_no_shard_holds_is_refused(directory: Path) -> None:
    index = json.loads((directory / INDEX).read_text())
    index["weight_map"]["surprise"] = shards(directory)[0].name
    (directory / INDEX).write_text(json.dumps(index))
    with refused(directory / INDEX, "surprise", "1 tensors"):
        load_model(directory)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 5}}', '{"weight_map": null}',
     '{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}', '{"weight_map": ' + "[" * 10_000, "\xff"],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_an_index_that_is_no_table_is_refused(directory: Path, text: str) -> None:
    (directory / INDEX).write_bytes(text.encode("latin-1"))
    with refused(directory / INDEX):
        load_model(directory)
