"""Pickled weights go through one door, a process of its own, and nothing in them runs or fills the memory."""

import json
import os
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from faults.refusal import measured, refused
from regard.cli import convert as verb
from regard.cli.main import run
from regard.unpickle import read_pickle
from weights.checkpoints import bits, save_tiny, tensors_of

MIB = 2**20


class Evil:
    """Unpickled without care, it runs a command."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A directory as it was before safetensors: config.json and pytorch_model.bin."""
    save_tiny(tmp_path / "old")
    torch.save(tensors_of(tmp_path / "old"), tmp_path / "old" / "pytorch_model.bin")
    (tmp_path / "old" / "model.safetensors").rename(tmp_path / "expected.safetensors")
    return tmp_path / "old"


def convert(*args: object) -> int:
    return run(["convert", *map(str, args)])


def assert_converted(new: Path) -> None:
    assert (new / "model.safetensors").read_bytes() == (new.parent / "expected.safetensors").read_bytes()
    assert {path.name for path in new.iterdir()} == {"config.json", "model.safetensors"}


# Honest files, through the process of their own


def test_a_pickle_becomes_a_safetensors_directory_with_the_same_bits(old: Path) -> None:
    assert convert(old, old.with_name("new"), "--allow-pickle") == 0
    assert_converted(old.with_name("new"))
    assert {path.name for path in old.parent.iterdir()} == {"old", "new", "expected.safetensors"}


def test_shards_are_read_from_their_index(old: Path) -> None:
    tensors = list(tensors_of(old.parent).items())
    table = {}
    for number in (1, 2):
        name = f"pytorch_model-0000{number}-of-00002.bin"
        torch.save(OrderedDict(tensors[number - 1 :: 2]), old / name)
        table |= {key: name for key, _ in tensors[number - 1 :: 2]}
    (old / "pytorch_model.bin").unlink()
    (old / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": table}))
    assert convert(old, old.with_name("new"), "--allow-pickle") == 0
    assert_converted(old.with_name("new"))


def test_a_file_is_found_by_its_name_when_training_left_others_beside_it(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (old / "pytorch_model.bin").rename(old / "best.pt")
    (old / "optimizer.pt").write_bytes(b"not to be read")
    assert convert(old, old.with_name("new"), "--allow-pickle") == 3
    shown = capsys.readouterr().err
    assert "best.pt, optimizer.pt" in shown
    assert "give the file itself" in shown
    assert convert(old / "best.pt", old.with_name("new"), "--allow-pickle") == 0
    assert_converted(old.with_name("new"))


# Honest files, read here


def save(path: Path, value: Any, **options: Any) -> Path:
    torch.save(value, path, **options)
    return path


@pytest.mark.parametrize("zipped", [True, False], ids=["since 1.6", "before 1.6"])
def test_both_formats_of_torch_give_every_bit(tmp_path: Path, zipped: bool) -> None:
    theirs = {"a": torch.randn(3, 5), "b": torch.arange(4), "c": torch.randn(2).bfloat16(), "d": torch.tensor(1.5)}
    ours = read_pickle(save(tmp_path / "x.bin", theirs, _use_new_zipfile_serialization=zipped))
    assert {name: bits(tensor) for name, tensor in ours.items()} == {name: bits(t) for name, t in theirs.items()}


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_weights_are_found_where_training_programs_wrap_them(tmp_path: Path, key: str) -> None:
    path = save(tmp_path / "x.pt", {key: {"a": torch.ones(2)}, "epoch": 3, "optimizer": {"lr": 0.1}})
    assert list(read_pickle(path)) == ["a"]


def test_tied_tensors_all_survive_and_share_no_memory(tmp_path: Path) -> None:
    table = torch.nn.Parameter(torch.randn(5, 3))
    ours = read_pickle(save(tmp_path / "x.bin", {"shared": table, "encoder": table, "decoder": table, "head": table}))
    assert {bits(tensor) for tensor in ours.values()} == {bits(table.detach())}
    assert len({tensor.untyped_storage().data_ptr() for tensor in ours.values()}) == 4


def test_views_of_one_tensor_survive(tmp_path: Path) -> None:
    whole = torch.randn(6, 4)
    views = {"q": whole[:2], "k": whole[2:4], "v": whole[4:], "turned": whole.T}
    ours = read_pickle(save(tmp_path / "x.bin", views))
    assert all(torch.equal(ours[name], view) for name, view in views.items())


# Without permission


@pytest.mark.parametrize("what", ["directory", "file"])
def test_without_permission_no_pickle_is_read_and_the_command_is_named(
    old: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = old if what == "directory" else old / "pytorch_model.bin"
    save(old / "pytorch_model.bin", Evil(old / "ran"))
    assert convert(source, old.with_name("new")) == 3
    shown = capsys.readouterr().err
    assert "pickle" in shown
    assert f"regard convert {source} NEW_DIRECTORY --allow-pickle" in shown
    assert not (old / "ran").exists()


def test_permission_does_not_make_a_pickle_win_over_safetensors(old: Path) -> None:
    (old.parent / "expected.safetensors").rename(old / "model.safetensors")
    save(old / "pytorch_model.bin", Evil(old / "ran"))
    assert convert(old, old.with_name("new"), "--allow-pickle") == 0
    assert not (old / "ran").exists()


# Hostile files


@pytest.mark.parametrize("zipped", [True, False], ids=["since 1.6", "before 1.6"])
def test_a_pickle_that_would_run_a_command_is_refused(tmp_path: Path, zipped: bool) -> None:
    evil = {"a": torch.ones(1), "b": Evil(tmp_path / "ran")}
    with refused(tmp_path / "x.bin", "was refused", "more than weights"):
        read_pickle(save(tmp_path / "x.bin", evil, _use_new_zipfile_serialization=zipped))
    assert not (tmp_path / "ran").exists()


def test_a_pickle_that_would_run_a_command_leaves_nothing_behind(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(old / "pytorch_model.bin", {"a": Evil(old / "ran")})
    assert convert(old, old.with_name("new"), "--allow-pickle") == 3
    shown = capsys.readouterr().err
    assert str(old / "pytorch_model.bin") in shown
    assert "more than weights" in shown
    assert "Traceback" not in shown
    assert not (old / "ran").exists()
    assert {path.name for path in old.parent.iterdir()} == {"old", "expected.safetensors"}


def test_a_file_called_torch_in_the_current_directory_is_not_torch(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch.py", "json.py", "regard.py", "sitecustomize.py"):
        (old / name).write_text(f"open({str(old / 'ran')!r}, 'w').close()\nraise SystemExit(7)\n")
    monkeypatch.chdir(old)
    assert convert(".", "../new", "--allow-pickle") == 0
    assert not (old / "ran").exists()
    assert_converted(old.with_name("new"))


def test_a_tensor_that_repeats_its_bytes_is_refused_before_it_is_copied(tmp_path: Path) -> None:
    save(tmp_path / "x.bin", {"a": torch.zeros(1).expand(10**12)})
    assert (tmp_path / "x.bin").stat().st_size < 5000
    action = "from regard.unpickle import read_pickle; from pathlib import Path; read_pickle(Path(sys.argv[1]))"
    message, grown = measured(action, tmp_path / "x.bin")
    assert "a has shape [1000000000000], but only 4 bytes" in message
    assert grown < 100 * MIB


def test_many_views_of_the_same_bytes_are_refused(tmp_path: Path) -> None:
    whole = torch.zeros(100, 100)
    with refused(tmp_path / "x.bin", "a8 has shape [100, 100]", "40,000 bytes"):
        read_pickle(save(tmp_path / "x.bin", {f"a{i}": whole[:] for i in range(100)}))


def repacked(path: Path, compression: int) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_file_that_would_swell_is_refused_unopened(tmp_path: Path, method: int) -> None:
    repacked(save(tmp_path / "x.bin", {"a": torch.zeros(10 * MIB)}), method)
    assert (tmp_path / "x.bin").stat().st_size < MIB
    with refused(tmp_path / "x.bin", "compressed"):
        read_pickle(tmp_path / "x.bin")


def test_parts_that_claim_more_bytes_than_the_file_has_are_refused(tmp_path: Path) -> None:
    """Overlapping parts, each of which is the whole file."""
    path = save(tmp_path / "x.bin", {"a": torch.zeros(1000)})
    raw = path.read_bytes()
    end = raw.rindex(b"PK\5\6")
    size, start = struct.unpack("<II", raw[end + 12 : end + 20])
    count = struct.unpack("<H", raw[end + 10 : end + 12])[0]
    directory = raw[start : start + size]
    closing = raw[end : end + 8] + struct.pack("<HHIIH", count * 50, count * 50, size * 50, start, 0)
    path.write_bytes(raw[:start] + directory * 50 + closing)
    with refused(path, "claim"):
        read_pickle(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"P", b"PK", b"hello, this is a text file\n", b"PK\3\4" + b"\0" * 100, b"\x80\x02}.", b"\x89PNG\r\n"],
    ids=repr,
)
def test_a_file_that_torch_did_not_write_is_refused_with_our_own_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with refused(tmp_path / "x.pt", "get it again"):
        read_pickle(tmp_path / "x.pt")


@pytest.mark.parametrize("zipped", [True, False], ids=["since 1.6", "before 1.6"])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, zipped: bool) -> None:
    path = save(tmp_path / "x.bin", {"a": torch.randn(50), "b": torch.ones(3)}, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    for size in range(1, len(whole) - 1, 53):
        path.write_bytes(whole[:size])
        with refused(path):
            read_pickle(path)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([torch.ones(1)], id="a list"),
        pytest.param(torch.ones(1), id="a tensor"),
        pytest.param({}, id="nothing"),
        pytest.param({"a": [torch.ones(1)]}, id="tensors in a list"),
        pytest.param({1: torch.ones(1)}, id="a number as name"),
        pytest.param({"a": torch.ones(1), "epoch": 5}, id="a number among tensors"),
        pytest.param({"a": torch.eye(3).to_sparse()}, id="sparse"),
        pytest.param({"a": torch.empty(10**12, device="meta")}, id="without memory"),
    ],
)
def test_what_is_no_table_of_plain_tensors_is_refused(tmp_path: Path, value: Any) -> None:
    with refused(tmp_path / "x.bin"):
        read_pickle(save(tmp_path / "x.bin", value))


@pytest.mark.filterwarnings("ignore")  # torch warns that it will not quantise for ever
def test_quantised_tensors_are_refused(tmp_path: Path) -> None:
    tensor = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    with refused(tmp_path / "x.bin", "a"):
        read_pickle(save(tmp_path / "x.bin", {"a": tensor}))


@pytest.mark.parametrize("claimed", [10**6, 2**31 - 1])
@pytest.mark.parametrize("zipped", [True, False], ids=["since 1.6", "before 1.6"])
def test_a_storage_that_claims_more_numbers_than_the_file_has_is_refused(
    tmp_path: Path, zipped: bool, claimed: int
) -> None:
    path = save(tmp_path / "x.bin", {"a": torch.zeros(77)}, _use_new_zipfile_serialization=zipped)
    honest, lie = b"K" + bytes([77]), struct.pack("<ci", b"J", claimed)  # how a pickle spells the number
    if zipped:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data.replace(honest, lie) if name.endswith("data.pkl") else data)
    else:
        path.write_bytes(path.read_bytes().replace(honest, lie))
    with refused(path):
        read_pickle(path)


def test_a_checkpoint_without_its_configuration_says_so(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old / "config.json").unlink()
    assert convert(old, old.with_name("new"), "--allow-pickle") == 3
    assert "no config.json beside" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../evil.bin", "/etc/evil.bin", "evil.safetensors", "missing.bin"])
def test_an_index_of_pickles_is_held_to_the_same_rules(
    old: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (old / "pytorch_model.bin").unlink()
    (old / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    assert convert(old, old.with_name("new"), "--allow-pickle") == 3
    assert "pytorch_model.bin.index.json" in capsys.readouterr().err


def test_a_reader_that_never_ends_is_ended(
    old: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested pairs, each holding the one before twice: as a key it must be hashed, in 2^100 steps."""
    bomb = b"K\0"
    for i in range(100):
        bomb += b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86"
    with zipfile.ZipFile(old / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}" + bomb + b"K\1s.")
        archive.writestr("archive/version", b"3\n")
    monkeypatch.setattr(verb, "SECONDS", 6)
    assert convert(old, old.with_name("new"), "--allow-pickle") == 3
    assert "was not read after 6 seconds" in capsys.readouterr().err
    assert {path.name for path in old.parent.iterdir()} == {"old", "expected.safetensors"}


@pytest.mark.parametrize("kind", ["crash", "silence"])
def test_a_reader_that_crashes_is_reported(
    old: Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the interpreter that dies as a broken file might make it die."""
    fake = old.parent / "python"
    fake.write_text("#!/bin/sh\n" + ("kill -SEGV $$\n" if kind == "crash" else "exit 1\n"))
    fake.chmod(0o755)
    monkeypatch.setattr(verb.sys, "executable", str(fake))
    assert convert(old, old.with_name("new"), "--allow-pickle") == 3
    assert "could not be read: the reader ended with" in capsys.readouterr().err
