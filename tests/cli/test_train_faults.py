"""`regard train` and `regard resume` under attack: nothing of the user's is lost, nothing half-made is called whole."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.cli.main import run
from regard.errors import UserError
from regard.training import loop
from regard.training import run as assembling
from regard.training.folder import RUN_FILE

Captured = pytest.CaptureFixture[str]
TRAIN = ["train", "tiny.toml", "--out", "run"]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


# ---- folders


@pytest.mark.parametrize("theirs", ["run.toml", "data/train.de", "model/mine.txt", "tokenizer/x", "tensorboard/x"])
def test_a_folder_with_something_of_the_users_is_refused_and_left_alone(
    home: Path, capsys: Captured, theirs: str
) -> None:
    path = home / "mine" / theirs
    path.parent.mkdir(parents=True)
    path.write_text((home / "tiny.toml").read_text() if theirs == "run.toml" else "precious")
    before = names(home / "mine")
    assert run(["train", "tiny.toml", "--out", "mine"]) == 2
    assert "which no run of regard wrote" in capsys.readouterr().err
    assert names(home / "mine") == before


def test_other_files_of_the_user_do_not_matter(home: Path) -> None:
    assert run(["train", "tiny.toml", "--out", "."]) == 0
    assert (home / "train.de").exists()
    assert (home / "model" / "config.json").exists()


# ---- the model in the end


@pytest.mark.parametrize("moment", ["save_model", "write_json"])
def test_a_kill_while_the_model_is_written_is_made_good_by_resume(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, moment: str
) -> None:
    def killed(*_args: Any, **_options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(assembling, moment, killed)
        patch.setattr(assembling, "judged", lambda *_args, **_options: None)
        assert run([*TRAIN, "--set", "data.valid=[]"]) == 130
    assert run(["resume", "run"]) == 0
    assert "already finished" not in capsys.readouterr().err
    assert (home / "run" / "model" / "tokenizer.json").exists()
    assert run(["resume", "run"]) == 0
    assert "already finished" in capsys.readouterr().err


def test_a_model_of_fewer_steps_is_not_taken_for_the_last(home: Path, capsys: Captured) -> None:
    assert run([*TRAIN, "--set", "train.steps=4"]) == 0
    assert run(["resume", "run", "--set", "train.steps=6"]) == 0
    (home / "run" / "finished.json").write_text('{"step": 4}')  # as if a kill had come before the model was written
    shutil.rmtree(home / "run" / "model")
    assert run(["resume", "run"]) == 0
    assert "already finished" not in capsys.readouterr().err
    assert json.loads((home / "run" / "finished.json").read_text()) == {"step": 6}
    assert (home / "run" / "model" / "config.json").exists()


# ---- checkpoints


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": []}'])
def test_a_damaged_manifest_leads_to_the_checkpoint_before_it(home: Path, capsys: Captured, text: str) -> None:
    assert run([*TRAIN, "--set", "valid.every=3"]) == 0
    (home / "run" / "checkpoints" / "step-00000006" / "manifest.json").write_text(text)
    (home / "run" / "checkpoints" / "step-foo").mkdir()
    capsys.readouterr()
    assert run(["resume", "run"]) == 0
    assert "already finished" not in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"progress": 5}, {"progress": {"no": 1}}, {"config": None}, {"step": "2"}])
def test_a_manifest_that_says_nonsense_is_no_bug_of_ours(home: Path, capsys: Captured, change: dict[str, Any]) -> None:
    assert run(TRAIN) == 0
    path = home / "run" / "checkpoints" / "step-00000006" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert run(["resume", "run"]) in (0, 3)
    assert "bug" not in capsys.readouterr().err


def test_no_whole_checkpoint_says_what_to_delete(home: Path, capsys: Captured) -> None:
    assert run(TRAIN) == 0
    for path in (home / "run" / "checkpoints").glob("step-*"):
        (path / "manifest.json").unlink()
    assert run(["resume", "run"]) == 3
    assert "delete" in capsys.readouterr().err


@pytest.mark.parametrize("pid", ["x", None, [1]])
def test_a_lock_of_nobody_is_taken_over(home: Path, pid: Any) -> None:
    (home / "run").mkdir()
    (home / "run" / "lock").write_text(json.dumps({"pid": pid, "host": os.uname().nodename}))
    assert run(TRAIN) == 0


# ---- settings


@pytest.mark.parametrize(
    "setting",
    ["valid.every=-1", "valid.sentences=-1", "valid.patience=-1", "train.beta1=1.0",
     "train.beta2=-1.0", "train.eps=-1.0", "train.weight_decay=-1.0", "train.clip=-1.0", "train.clip=0.0",
     "train.warmup=-5", "train.lr=nan", "train.lr=inf", "train.save_minutes=-1.0", "model.vocab_size=99",
     "model.max_len=9", "model.pad_id=3"],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused(home: Path, capsys: Captured, setting: str) -> None:
    assert run([*TRAIN, "--set", setting]) == 3
    key = setting.partition("=")[0]
    assert key in capsys.readouterr().err
    assert not (home / "run").exists()


@pytest.mark.parametrize("setting", ["model.window=1", 'model.position="rotary"', 'model.layout="t5"'])
def test_a_model_that_could_not_be_saved_is_refused_before_training(home: Path, capsys: Captured, setting: str) -> None:
    assert run([*TRAIN, "--set", setting]) == 3
    assert "layout" in capsys.readouterr().err
    assert not (home / "run").exists()


@pytest.mark.parametrize(
    "command",
    [["train", "~nobody-of-this-name/x", "--out", "run"], ["train", "tiny.toml", "--out", "~nobody-of-this-name/x"],
     [*TRAIN, "--set", 'data.train=["~nobody-of-this-name/x"]']],
    ids=["recipe", "out", "data"],
)  # fmt: skip
def test_an_unknown_user_is_named(home: Path, capsys: Captured, command: list[str]) -> None:
    assert run(command) == 3
    assert "write the path without ~" in capsys.readouterr().err


def test_divergence_found_by_a_validation_says_what_to_do(home: Path, capsys: Captured) -> None:
    assert run([*TRAIN, "--set", "train.lr=1e9", "--set", "valid.every=1", "--set", "train.warmup=0"]) in (1, 3)
    said = capsys.readouterr().err
    assert "step" in said
    assert "lower train.lr" in said


def test_skipped_steps_do_not_push_a_good_checkpoint_out(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert run([*TRAIN, "--set", "train.steps=3", "--set", "data.valid=[]"]) == 0
    monkeypatch.setattr(loop, "step", lambda *_args, **_options: loop.StepResult(float("nan"), 1.0, 1, bad="x"))
    run(["resume", "run", "--set", "train.steps=6", "--set", "train.save_minutes=0.0"])
    assert [path.name for path in (home / "run" / "checkpoints").glob("step-*")] == ["step-00000003"]


def test_a_small_text_says_how_many_tokens_it_gave(home: Path, capsys: Captured) -> None:
    assert run([*TRAIN, "--set", "text.vocab_size=8000"]) == 0
    assert "the text gave no more than" in capsys.readouterr().err


@pytest.mark.parametrize(
    "place", [{"WORLD_SIZE": "2"}, {"WORLD_SIZE": "x", "RANK": "0"}, {"LOCAL_RANK": "-1"}], ids=str
)
def test_ranks_that_are_no_numbers_are_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, place: dict[str, str]
) -> None:
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    assert run(TRAIN) == 2
    assert "torchrun sets them" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_no_bug_of_ours(home: Path, capsys: Captured) -> None:
    assert run([*TRAIN, "--set", "train.device=cuda"]) == 2
    assert "torch finds 0 of them here" in capsys.readouterr().err


# ---- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("work", ["report", "prepare"])
def test_the_exit_code_names_the_signal(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, work: str
) -> None:
    honest = getattr(assembling, work)

    def pressed(*args: Any, **options: Any) -> Any:
        os.kill(os.getpid(), number)
        return honest(*args, **options)

    monkeypatch.setattr(assembling, work, pressed)
    assert run(TRAIN) == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_training_saves(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, number: signal.Signals
) -> None:
    honest = loop.step

    def pressed(*args: Any, **options: Any) -> Any:
        os.kill(os.getpid(), number)
        return honest(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "step", pressed)
        assert run(TRAIN) == 128 + number
    assert ("Ctrl-C" in capsys.readouterr().err) == (number == signal.SIGINT)
    assert (home / "run" / RUN_FILE).exists()
    assert run(["resume", "run"]) == 0


@contextlib.contextmanager
def failing_after_a_checkpoint(monkeypatch: pytest.MonkeyPatch, end: BaseException) -> Iterator[None]:
    honest = loop.Trainer._log

    def fail(trainer: loop.Trainer, *told: Any) -> None:
        if trainer.saved_step:
            raise end
        honest(trainer, *told)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "_log", fail)
        yield


@pytest.mark.parametrize("lengths", [["train.epochs=2.0"], ["valid.every=0"], []], ids=str)
def test_what_torchrun_starts_again_goes_on_also_where_it_counts_in_rounds(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, lengths: list[str]
) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "mine", "WORLD_SIZE": "1", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    command = [*TRAIN, "--set", "train.save_minutes=0.0", *(f"--set={each}" for each in lengths)]
    with failing_after_a_checkpoint(monkeypatch, UserError("a rank is gone")):
        assert run(command) == 3
    assert run(command) == 0
    assert "going on from step" in capsys.readouterr().err


@pytest.mark.parametrize("end", [UserError("a rank is gone"), SystemExit(130), RuntimeError("a bug")], ids=repr)
def test_a_run_that_fails_after_a_checkpoint_keeps_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    """However it ends: the message says that the checkpoint is untouched."""
    with failing_after_a_checkpoint(monkeypatch, end), contextlib.suppress(SystemExit):
        assert run([*TRAIN, "--set", "train.save_minutes=0.0"]) != 0
    assert not (home / "run" / "lock").exists()
    assert run(["resume", "run"]) == 0
