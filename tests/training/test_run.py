"""A run end to end, on a language of twenty words: it learns, stops, resumes and finishes as if never stopped."""

import json
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from faults.refusal import refused
from regard.errors import UserError
from regard.runlog import read_log
from regard.training import checkpoint, loop
from regard.training.config import RunConfig
from regard.training.folder import locked, read_run, run_of, write_run
from regard.training.run import assemble, finish
from regard.weights.store import load_model
from training.runs import tiny_run, write_pairs
from training.spread import command, start


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    write_pairs(tmp_path)
    return tiny_run(tmp_path)


def train(config: RunConfig, folder: Path, *, stop_at: int | None = None) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = []
    stop = Event()

    def listen(kind: str, **values: Any) -> None:
        events.append((kind, values))
        if kind == "step" and stop_at is not None and values["step"] >= stop_at:
            stop.set()

    trainer = assemble(config, folder, [listen])
    if trainer.fit(stop) != "stopped":
        finish(trainer)
    return events


@pytest.fixture(autouse=True)
def log_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_SECONDS", 0.0)


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def test_a_resumed_run_ends_bit_equal_wherever_it_stopped(config: RunConfig, tmp_path: Path) -> None:
    train(config, tmp_path / "through")
    expected = tensors_of(tmp_path / "through")
    for stop_at in (1, 7, 8, 13, 23):
        folder = tmp_path / f"broken-{stop_at}"
        train(config, folder, stop_at=stop_at)
        assert not (folder / "model").exists()
        train(config, folder)
        found = tensors_of(folder)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected), stop_at


def test_it_learns(config: RunConfig, tmp_path: Path) -> None:
    longer = replace(config, train=replace(config.train, steps=300), valid=replace(config.valid, every=150))
    events = train(longer, tmp_path / "run")
    losses = [values["loss"] for kind, values in events if kind == "step"]
    assert losses[-1] < 0.4 * losses[0]
    best = [values["BLEU"] for kind, values in events if kind == "valid"]
    assert best[-1] > 40
    model = load_model(tmp_path / "run" / "model")
    assert not model.encoder.embed.token.weight[model.config.pad_id].any()  # padding stayed zero


def test_a_changed_setting_or_changed_data_is_refused(config: RunConfig, tmp_path: Path) -> None:
    train(config, tmp_path / "run", stop_at=2)
    other = replace(config, train=replace(config.train, lr=0.5))
    with pytest.raises(UserError, match=r"train\.lr was 0\.01 and is 0\.5"):
        assemble(other, tmp_path / "run", [])
    for part in ("train", "valid"):
        source = Path(getattr(config.data, part)[0])
        before = source.read_text(encoding="utf-8")
        source.write_text(before.replace("hund", "haus", 1), encoding="utf-8")
        with pytest.raises(UserError, match=f"the {part}[a-z]* data"):
            assemble(config, tmp_path / "run", [])
        source.write_text(before, encoding="utf-8")
    fewer = replace(config, valid=replace(config.valid, sentences=5))
    with pytest.raises(UserError, match=r"valid\.sentences was 10 and is 5"):
        assemble(fewer, tmp_path / "run", [])
    assemble(config, tmp_path / "run", [])


def test_a_checkpoint_of_an_earlier_version_goes_on(config: RunConfig, tmp_path: Path) -> None:
    """It knew nothing of ranks, and kept no fingerprint of the validation data."""
    train(config, tmp_path / "run", stop_at=2)
    newest = checkpoint.latest(tmp_path / "run" / "checkpoints")
    assert newest is not None
    manifest = json.loads((newest / "manifest.json").read_text())
    del manifest["ranks"], manifest["valid"]
    (newest / "manifest.json").write_text(json.dumps(manifest))
    assert assemble(config, tmp_path / "run", []).progress.step == 2


def test_the_time_left_is_told_by_the_speed_of_now(config: RunConfig, tmp_path: Path) -> None:
    """Twelve steps took three hours; then the machine was quiet."""
    trainer = assemble(config, tmp_path / "run", [])
    trainer.progress.step = 12
    trainer.began -= 3 * 60 * 60
    trainer._look_again()
    left: list[float] = []
    trainer.listeners.append(lambda kind, **values: left.append(values["seconds_left"]) if kind == "step" else None)
    trainer.fit(Event())
    assert len(left) == 12
    assert max(left) < 10 * 60
    assert left[-1] == 0


def test_a_run_needs_no_validation_data(config: RunConfig, tmp_path: Path) -> None:
    train(replace(config, data=replace(config.data, valid=())), tmp_path / "run")
    assert (tmp_path / "run" / "model").is_dir()


def test_a_finished_run_takes_no_further_step(config: RunConfig, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    before = tensors_of(tmp_path / "run")
    events = train(config, tmp_path / "run")
    assert not [kind for kind, _ in events if kind == "step"]
    assert all(torch.equal(a, before[name]) for name, a in tensors_of(tmp_path / "run").items())


def test_numbers_that_are_none_are_skipped_named_and_counted(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, calls = loop.step, []

    def poisoned(model: Any, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            with torch.no_grad():
                kept = model.decoder.blocks[0].ffn.up.weight.clone()
                model.decoder.blocks[0].ffn.up.weight.fill_(float("nan"))
            result = honest(model, *args, **options)
            with torch.no_grad():
                model.decoder.blocks[0].ffn.up.weight.copy_(kept)
            return result
        return honest(model, *args, **options)

    monkeypatch.setattr(loop, "step", poisoned)
    events = train(config, tmp_path / "run")
    bad = [values for kind, values in events if kind == "bad step"]
    assert [values["step"] for values in bad] == [3]
    assert bad[0]["rows"]
    assert all(torch.isfinite(tensor).all() for tensor in tensors_of(tmp_path / "run").values())
    stopping = replace(config, train=replace(config.train, on_nan="stop"))
    calls.clear()
    with pytest.raises(UserError, match="step 3"):
        train(stopping, tmp_path / "other")


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError, match="in use"), locked(tmp_path):
        pass
    (tmp_path / "lock").write_text('{"pid": 999999999, "host": "nowhere"}')
    with pytest.raises(UserError, match="nowhere"), locked(tmp_path):
        pass
    shutil.rmtree(tmp_path)
    with locked(tmp_path):  # the folder is made
        assert (tmp_path / "lock").exists()
    assert not (tmp_path / "lock").exists()


def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("x")
    with pytest.raises(UserError, match="cannot be written"), locked(place / "run"):
        pass


def test_the_written_run_file_reads_back_equal(config: RunConfig, tmp_path: Path) -> None:
    write_run(config, tmp_path / "run")
    assert read_run(tmp_path / "run" / "run.toml") == config


KILLS, SITTINGS = 20, 4
"So many in all, and at most so many of one run before it may end."


@pytest.mark.slow
def test_kill_at_any_moment_then_resume_ends_bit_equal(config: RunConfig, tmp_path: Path) -> None:
    """A checkpoint after every step, so that many a kill falls into the writing of one."""
    often = replace(config, train=replace(config.train, steps=40, save_minutes=1e-9))
    write_run(often, tmp_path / "through")
    assert run_and_kill(tmp_path / "through", None)
    expected = tensors_of(tmp_path / "through")
    chance, kills, runs, torn = random.Random(1), 0, 0, 0
    while kills < KILLS:
        folder, runs = tmp_path / f"killed-{runs}", runs + 1
        write_run(often, folder)
        for _ in range(SITTINGS):
            if run_and_kill(folder, chance.uniform(-0.1, 0.4)):
                break
            kills += 1
            torn += any((folder / "checkpoints").glob("*.tmp-*"))
        assert run_and_kill(folder, None)
        found = tensors_of(folder)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert [event["kind"] for event in read_log(folder / "log.jsonl")].count("model") == 1
    assert torn, "no kill fell into a save"


def run_and_kill(folder: Path, delay: float | None) -> bool:
    """True when it ended by itself. Killed `delay` seconds after the sitting's first step, before it where negative."""
    [child], [end] = start(command, 1, "resume", str(folder))
    steps = steps_in(folder)
    while delay is not None and not end.poll(0.005):
        if delay < 0 or steps_in(folder) > steps:
            time.sleep(abs(delay))
            break
    finished = end.poll(120 if delay is None else 0)
    if finished:
        assert end.recv()[0] == 0
    child.kill()
    child.join()
    return finished


def steps_in(folder: Path) -> int:
    return sum(event["kind"] == "step" for event in read_log(folder / "log.jsonl"))


@pytest.mark.parametrize("train", [{}, {"epochs": 3}, {"steps": 7}])
def test_who_counts_steps_means_steps_whatever_is_usual_or_in_the_recipe(train: dict[str, Any]) -> None:
    given = {"task": "classify", "data": {"train": ["a.tsv"]}, "train": train}
    counted = run_of(given, ["train.steps=4"]).train
    assert (counted.steps, counted.epochs) == (4, 0)
    assert run_of(given, ["train.steps=4", "train.epochs=0"]).train == counted
    with refused("train.steps and train.epochs are both set"):
        run_of(given, ["train.steps=4", "train.epochs=2"])
    assert (run_of(given, []).train.epochs > 0) == ("steps" not in train)
