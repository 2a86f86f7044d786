"""TensorBoard's files hold the run's curves, once each, also after a break; without the package nothing happens."""

import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from regard.training import loop
from regard.training.run import assemble
from regard.training.tensorboard import TensorBoard
from training.runs import tiny_run, write_pairs

TRAIN = ["train/loss", "train/lr", "train/tokens_per_second"]
VALID = ["valid/BLEU", "valid/chrF", "valid/loss"]


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """As TensorBoard itself reads them."""
    read = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def sit(folder: Path, config: Any, *, stop_at: int = 10**9, die_at: int = 10**9) -> list[tuple[str, dict[str, Any]]]:
    """Train until the end, a polite stop or a crash."""
    events: list[tuple[str, dict[str, Any]]] = []
    stop = Event()

    def listen(kind: str, **values: Any) -> None:
        events.append((kind, values))
        if kind == "step" and values["step"] >= die_at:
            raise RuntimeError("killed")
        if kind == "step" and values["step"] >= stop_at:
            stop.set()

    trainer = assemble(config, folder, [])
    board = TensorBoard(folder / "tensorboard", trainer.progress.step)
    trainer.listeners += [board, listen]
    try:
        trainer.fit(stop)
    except RuntimeError:
        pass
    finally:
        board.close()
    return events


@pytest.fixture(autouse=True)
def log_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_SECONDS", 0.0)


def test_every_curve_is_written_and_a_broken_run_draws_no_step_twice(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    config = tiny_run(tmp_path)
    first = sit(tmp_path / "run", config, die_at=13)  # five steps behind the checkpoint of step 8
    assert [step for step, _ in curves(tmp_path / "run" / "tensorboard")["train/loss"]] == list(range(1, 14))
    second = sit(tmp_path / "run", config, stop_at=18)
    third = sit(tmp_path / "run", config)
    found = curves(tmp_path / "run" / "tensorboard")
    assert sorted(found) == sorted(TRAIN + VALID)
    for tag in TRAIN:
        assert [step for step, _ in found[tag]] == list(range(1, 25))
    for tag in VALID:
        assert [step for step, _ in found[tag]] == [8, 16, 24]
    logged = [values for kind, values in [*first[:8], *second, *third] if kind == "step"]
    assert [value for _, value in found["train/loss"]] == pytest.approx([each["loss"] for each in logged[:24]])
    scores = [values["chrF"] for kind, values in [*first, *second, *third] if kind == "valid"]
    assert [value for _, value in found["valid/chrF"]] == pytest.approx(scores)


def test_without_the_package_nothing_is_written_and_nothing_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # importing it fails
    board = TensorBoard(tmp_path / "tensorboard", 0)
    board("step", step=1, loss=1.0, lr=0.1, tokens_per_second=1.0)
    board.close()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr() == ("", "")


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("a file")
    board = TensorBoard(tmp_path / "tensorboard", 0)
    board("step", step=1, loss=1.0)
    board.close()


def test_a_disk_that_fills_up_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = TensorBoard(tmp_path / "tensorboard", 0)
    calls = []

    def full(*_: Any) -> None:
        calls.append(1)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(board.writer, "add_scalar", full)
        board("step", step=1, loss=1.0, lr=0.1)
        board("step", step=2, loss=1.0, lr=0.1)
    assert len(calls) == 1
    board.close()
