"""Saving never harms what was there: a crash or a full disk leaves the old file, or the whole new one."""

import multiprocessing
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from faults.refusal import refused
from regard.errors import UserError
from regard.models.gpt import Gpt
from regard.weights.store import load_model, save_model
from weights.checkpoints import TINY, fill_and_save, save_tiny, tensors_of

HUNDRED_MB = replace(TINY, vocab_size=2_000, d_model=512, n_heads=8, d_ff=2048, n_layers=8)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def value_of(directory: Path) -> float:
    """The one value that all weights have; they must not be a mixture of two savings."""
    values = {float(value) for tensor in tensors_of(directory).values() for value in tensor.aminmax()}
    assert len(values) == 1, values
    return values.pop()


def filled(model: Gpt, value: float) -> Gpt:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are ended as POSIX ends them")
def test_a_process_killed_while_it_saves_leaves_a_whole_file_and_nothing_that_confuses(tmp_path: Path) -> None:
    """B25. A hundred megabytes, ten times, at any moment."""
    source, target = tmp_path / "source", tmp_path / "target"
    save_model(filled(Gpt(HUNDRED_MB), 0.0), source)
    assert (source / "model.safetensors").stat().st_size > 100e6
    shutil.copytree(source, target)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["regard.weights.store"])
    chance, interrupted = random.Random(0), 0
    for attempt in range(10):
        started = server.Event()
        values = [2.0 * attempt + 1, 2.0 * attempt + 2]
        process = server.Process(target=fill_and_save, args=(source, target, values, started))
        process.start()
        assert started.wait(60)
        deadline = time.monotonic() + 20
        while len(names_in(target)) <= 2 and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.001)  # until a saving is under way
        time.sleep(chance.choice([0.0, 0.01, 0.05, 0.3]))
        process.kill()
        process.join()
        interrupted += len(names_in(target)) > 2
        load_model(target)
        assert value_of(target) <= values[-1]
    assert interrupted > 0, "no saving was interrupted: this has shown nothing"
    save_model(load_model(source), target)
    assert names_in(target) == {"config.json", "model.safetensors"}


def test_the_leftovers_of_a_killed_process_are_cleared_by_the_next_saving(tmp_path: Path) -> None:
    model = save_tiny(tmp_path)
    leftover = tmp_path / ".weights.tmp-12345"
    leftover.mkdir()
    (leftover / ".tmpAbCdEf").write_bytes(b"half a file")
    assert load_model(tmp_path).n_parameters == model.n_parameters
    save_model(model, tmp_path)
    assert names_in(tmp_path) == {"config.json", "model.safetensors"}


@pytest.mark.parametrize("sizes", [(1000, 10**9), (10**9, 1000), (1000, 2000), (1000, 1000)])
def test_another_number_of_shards_leaves_none_of_the_old_ones(tmp_path: Path, sizes: tuple[int, int]) -> None:
    for value, size in enumerate(sizes):
        save_model(filled(Gpt(TINY), value), tmp_path, shard_bytes=size)
    assert value_of(tmp_path) == 1.0
    save_model(Gpt(TINY), tmp_path / "fresh", shard_bytes=sizes[1])
    assert names_in(tmp_path) == names_in(tmp_path / "fresh") | {"fresh"}


@pytest.mark.parametrize("sizes", [(1000, 10**9), (10**9, 1000), (1000, 1000)])
def test_a_saving_that_fails_half_way_leaves_all_old_shards(
    tmp_path: Path, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(filled(Gpt(TINY), 1.0), tmp_path, shard_bytes=sizes[0])
    before, calls = names_in(tmp_path), iter(range(100))

    def fail(descriptor: int) -> None:
        if next(calls) == (2 if sizes[1] == 1000 else 0):
            raise OSError("the disk has gone")

    monkeypatch.setattr(os, "fsync", fail)
    with refused(tmp_path, "the disk has gone", "untouched"):
        save_model(filled(Gpt(TINY), 2.0), tmp_path, shard_bytes=sizes[1])
    assert names_in(tmp_path) == before
    assert value_of(tmp_path) == 1.0


def test_a_saving_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("the disk has gone")

    monkeypatch.setattr(os, "fsync", fail)
    with refused(tmp_path, "the disk has gone", "untouched"):
        save_tiny(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert names_in(tmp_path) == {"config.json", "model.safetensors"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB in memory, where this may be made."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError as error:
        pytest.skip(f"no small disk can be made here: {error}")
    if mounted.returncode:
        pytest.skip(f"no small disk can be made here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=30)


FIVE_MB = replace(TINY, vocab_size=10_000, d_model=128)


@pytest.mark.parametrize("shard_bytes", [10**9, 10**6])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(small_disk: Path, shard_bytes: int) -> None:
    model = filled(Gpt(FIVE_MB), 1.0)
    save_model(model, small_disk, shard_bytes=shard_bytes)
    before = names_in(small_disk)
    filled(model, 2.0)
    (small_disk / "ballast").write_bytes(b"\0" * (2 * 2**20))
    with refused(small_disk, "could not be written", "No space left"):
        save_model(model, small_disk, shard_bytes=10**9)
    assert names_in(small_disk) == before | {"ballast"}
    assert value_of(small_disk) == 1.0
    assert load_model(small_disk).n_parameters == model.n_parameters


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
@pytest.mark.parametrize("shard_bytes", [10**9, 1000])
def test_files_have_the_mode_that_the_umask_says(tmp_path: Path, umask: int, shard_bytes: int) -> None:
    before = os.umask(umask)
    try:
        save_model(Gpt(TINY), tmp_path / "new", shard_bytes=shard_bytes)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o666 & ~umask}


def test_a_saved_file_is_a_new_one_and_never_the_old_one_written_over(tmp_path: Path) -> None:
    """B24: whoever has the old file open keeps the old numbers."""
    save_tiny(tmp_path)
    with (tmp_path / "model.safetensors").open("rb") as file:
        before = file.read()
        save_model(Gpt(replace(TINY, vocab_size=12)), tmp_path)
        file.seek(0)
        assert file.read() == before
    assert (tmp_path / "model.safetensors").read_bytes() != before


@pytest.mark.parametrize("place", ["file/below", "x" * 300])
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError) as caught:
        save_tiny(tmp_path / place)
    assert "could not be written" in str(caught.value)
    assert names_in(tmp_path) == {"file"}


def test_two_processes_that_save_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    """Whoever loses may fail, with our own error; the file is one of the two."""
    save_tiny(tmp_path)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["regard.weights.store"])
    started = [server.Event(), server.Event()]
    processes = [
        server.Process(target=fill_and_save, args=(tmp_path, tmp_path / "new", [float(n + 1)], started[n]))
        for n in range(2)
    ]
    for process in processes:
        process.start()
    for event in started:
        assert event.wait(60)
    time.sleep(1.0)
    for process in processes:
        process.kill()
        process.join()
    assert value_of(tmp_path / "new") in (1.0, 2.0)
