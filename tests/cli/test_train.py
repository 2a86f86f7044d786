"""`regard train` and `regard resume` as they are used: starts that fail, Ctrl-C at any moment, changed settings."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.cli.main import run
from regard.runlog import read_log
from regard.training import loop
from regard.training import run as assembling
from regard.training.folder import Start, read_run

Captured = pytest.CaptureFixture[str]


def ctrl_c_in(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *, call: int = 1) -> None:
    """The user presses Ctrl-C while this function works for the `call`-th time."""
    honest: Callable[..., Any] = getattr(module, name)
    calls = []

    def pressed(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return honest(*args, **options)

    monkeypatch.setattr(module, name, pressed)


def steps_of(folder: Path) -> list[int]:
    return [event["step"] for event in read_log(folder / "log.jsonl") if event["kind"] == "step"]


# ---- Ctrl-C


@pytest.mark.parametrize("work", ["report", "train_tokenizer", "prepare"])
def test_ctrl_c_before_the_first_step_claims_nothing_and_the_same_command_starts_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, work: str
) -> None:
    command = ["train", "tiny.toml", "--out", "a b/run", "--set", 'data.test=["valid.de", "valid.en"]']
    before = sorted(home.rglob("*"))
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, assembling, work)
        assert run(command) == 130
    said = capsys.readouterr().err
    again = """regard train tiny.toml --out 'a b/run' --set 'data.test=["valid.de", "valid.en"]'"""
    assert f"stopped before the first step; nothing was saved\n  start again with: {again}\n" in said
    assert "error:" not in said
    assert "saved. Go on" not in said
    assert sorted(home.rglob("*")) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert run(command) == 0
    assert capsys.readouterr().out == "a b/run/model\n"


def test_ctrl_c_while_training_saves_and_a_later_one_before_the_next_step_leaves_that_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, loop, "step", call=3)
        assert run(["train", "tiny.toml", "--out", "run"]) == 130
    assert "saved. Go on with: regard resume run" in capsys.readouterr().err
    assert (home / "run" / "checkpoints" / "step-00000003").is_dir()
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, assembling, "prepare")
        assert run(["resume", "run"]) == 130
    assert "the last checkpoint is as it was\n  go on with: regard resume run" in capsys.readouterr().err
    assert run(["resume", "run"]) == 0
    assert steps_of(home / "run") == [1, 2, 3, 4, 5, 6]


def test_a_stop_that_comes_before_the_first_step_is_taken_saves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    ctrl_c_in(monkeypatch, loop, "Steps")
    assert run(["train", "tiny.toml", "--out", "run"]) == 130
    assert "stopped before the first step; nothing was saved" in capsys.readouterr().err
    assert not (home / "run").exists()


# ---- starts that fail


def test_a_failed_start_leaves_nothing_and_the_same_command_starts(home: Path, capsys: Captured) -> None:
    command = ["train", "tiny.toml", "--out", "run"]
    source = home / "train.de"
    source.rename(home / "elsewhere")
    assert run(command) == 3
    assert f"there is no file {source}" in capsys.readouterr().err
    source.write_bytes((home / "elsewhere").read_bytes() + b"eine Zeile zu viel\n")
    assert run(command) == 3
    assert "the files differ in lines" in capsys.readouterr().err
    assert not (home / "run").exists()
    source.write_bytes((home / "elsewhere").read_bytes())
    assert run(command) == 0
    assert run(command) == 2
    assert (
        "run holds a run already\n  go on with `regard resume run`, or choose another folder with --out"
        in capsys.readouterr().err
    )


def test_what_was_in_the_folder_before_a_failed_start_is_there_after_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "run").mkdir()
    for name in ("letter.txt", "log.jsonl"):
        (home / "run" / name).write_text("mine\n")
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, assembling, "prepare")
        assert run(["train", "tiny.toml", "--out", "run"]) == 130
    assert sorted(path.name for path in (home / "run").iterdir()) == ["letter.txt", "log.jsonl"]
    assert (home / "run" / "log.jsonl").read_text().startswith("mine\n")


def test_what_a_killed_start_has_learnt_is_learnt_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Start, "is_kept", True, raising=False)
        patch.setattr(Start, "__init__", lambda self, folder: setattr(self, "folder", folder))
        ctrl_c_in(patch, assembling, "prepare")
        assert run(["train", "tiny.toml", "--out", "run", "--set", "text.vocab_size=300"]) == 130
    assert (home / "run" / "tokenizer" / "tokenizer.json").is_file()
    assert run(["train", "tiny.toml", "--out", "run", "--set", "text.vocab_size=310"]) == 0
    assert read_run(home / "run" / "run.toml").text.vocab_size == 310
    assert '"vocab_size": 310' in (home / "run" / "model" / "config.json").read_text()


def test_a_folder_of_something_else_is_not_cleared(home: Path) -> None:
    (home / "mine" / "data").mkdir(parents=True)
    (home / "mine" / "data" / "letter.txt").write_text("dear")
    assert run(["train", "tiny.toml", "--out", "mine", "--set", 'data.train=["nowhere.tsv"]']) == 2
    assert (home / "mine" / "data" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.preset=bert-base", "bert-base does not translate"),
        ("model.preset=gpt2", "gpt2 does not translate"),
        ("model.preset=vit-base", "vit-base does not translate"),
        ("model.preset=transformer-smal", "did you mean 'transformer-small'?"),
        ("model.n_haeds=4", "did you mean 'n_heads'?"),
        ("model.n_heads=7", "7"),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_anything_is_written(
    home: Path, capsys: Captured, setting: str, message: str
) -> None:
    assert run(["train", "tiny.toml", "--out", "run", "--set", setting]) == 3
    assert message in capsys.readouterr().err
    assert not (home / "run").exists()


def test_a_name_that_is_neither_a_file_nor_a_recipe_is_answered_with_a_near_one_of_both(
    home: Path, capsys: Captured
) -> None:
    (home / "sub").mkdir()
    (home / "sub" / "mine.toml").touch()
    near = {"tiny.tml": "'tiny.toml'", "sub/mine": "'sub/mine.toml'", "multi30k-de": "'multi30k-de-en'"}
    for name, offered in near.items():
        assert run(["train", name, "--out", "run"]) == 3
        said = capsys.readouterr().err
        assert said == (f"error: there is neither a file nor a recipe called '{name}'\n  did you mean {offered}?\n")


def test_a_recipe_without_its_data_names_what_fetches_it(home: Path, capsys: Captured) -> None:
    assert run(["train", "multi30k-de-en", "--out", "run"]) == 3
    said = capsys.readouterr().err
    assert "fetch it with `regard get multi30k`,\n" in said
    assert """--set 'data.train=["my.train.de.gz", "my.train.en.gz"]'""" in said
    elsewhere = 'data.train=["far/data/multi30k_de_en/train.tsv"]'
    assert run(["train", "multi30k-de-en", "--out", "run", "--set", elsewhere]) == 3
    assert f"`regard get multi30k --to {home / 'far/data/multi30k_de_en'}`" in capsys.readouterr().err
    assert run(["train", "tiny.toml", "--out", "run", "--set", 'data.valid=["x.tsv"]']) == 3
    assert """check [data], or name other files: --set 'data.valid=["my.x.tsv"]'""" in capsys.readouterr().err


# ---- the end


def test_the_end_says_which_weights_won_on_what_and_what_to_type(home: Path, capsys: Captured) -> None:
    test = ["--set", 'data.test=["valid.de", "valid.en"]', "--set", "valid.every=2"]
    assert run(["train", "tiny.toml", "--out", "run", *test]) == 0
    shown = capsys.readouterr()
    assert shown.out == "run/model\n"
    *_, first, _, _, _, _, chose, translate, evaluate = shown.err.splitlines()
    assert re.fullmatch(
        r"the model is the (average of the checkpoints of steps 4 and 6|checkpoint of step [246])", first
    )
    assert "validation set, which chose these weights" in chose
    assert translate == 'try: regard translate --model run/model "…"'
    assert evaluate == "     regard evaluate --model run/model --data valid.de --data valid.en"
    assert max(map(len, shown.err.splitlines())) <= 80


def test_resume_says_only_what_is_news(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, loop, "step", call=2)
        assert run(["train", "tiny.toml", "--out", "run"]) == 130
    assert "median" in capsys.readouterr().err
    assert run(["resume", "run"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("Transformer: 31.6 k parameters; going on from step 2 of 6\n")
    assert "median" not in said
    assert "tokenising" not in said
    assert "try: regard translate --model run/model" in said
    assert run(["resume", "run"]) == 0
    said = capsys.readouterr().err
    assert said == 'already finished: run/model\ntry: regard translate --model run/model "…"\n'


# ---- going on


def test_a_run_goes_on_from_another_folder(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, loop, "step", call=2)
        assert run(["train", "tiny.toml", "--out", "run"]) == 130
    assert read_run(home / "run" / "run.toml").data.train == (str(home / "train.de"), str(home / "train.en"))
    (home / "other").mkdir()
    monkeypatch.chdir(home / "other")
    capsys.readouterr()
    assert run(["resume", "../run"]) == 0
    assert capsys.readouterr().out == "../run/model\n"


def test_what_does_not_decide_the_numbers_may_change_and_stays_changed(home: Path, capsys: Captured) -> None:
    assert run(["train", "tiny.toml", "--out", "run"]) == 0
    changes = ["train.save_minutes=0.5", "valid.patience=3", "train.on_nan=stop", "train.steps=9"]
    assert run(["resume", "run", *(part for change in changes for part in ("--set", change))]) == 0
    assert steps_of(home / "run") == list(range(1, 10))
    config = read_run(home / "run" / "run.toml")
    assert (config.train.save_minutes, config.valid.patience, config.train.on_nan) == (0.5, 3, "stop")
    capsys.readouterr()
    assert run(["resume", "run"]) == 0
    assert "already finished: run/model" in capsys.readouterr().err


DECIDED = [
    ("train.lr=0.5", "must stay: train.lr was 0.01 and is 0.5\n  free are about, train.save_minutes", 2),
    ("seed=2", "must stay: seed was 1 and is 2", 2),
    ("data.max_len=50", "data.max_len was 128 and is 50", 2),
    ("train.schedule=cosine", "train.schedule was 'inverse_sqrt' and is 'cosine'", 2),
    ("train.steps=4", "train.steps is 4, but run is at step 6 already", 3),
    ("train.save_minuts=1", "did you mean 'save_minutes'?", 3),
    ("data.train=['valid.de', 'valid.en']", "the training data or the tokenizer", 3),
]


def test_what_decided_the_numbers_is_refused_and_not_written(home: Path, capsys: Captured) -> None:
    assert run(["train", "tiny.toml", "--out", "run"]) == 0
    before = (home / "run" / "run.toml").read_bytes()
    for setting, message, code in DECIDED:
        assert run(["resume", "run", "--set", setting]) == code
        assert message in capsys.readouterr().err
        assert (home / "run" / "run.toml").read_bytes() == before


def test_steps_stay_where_the_schedule_looks_ahead_to_the_last_one(home: Path, capsys: Captured) -> None:
    assert run(["train", "tiny.toml", "--out", "run", "--set", "train.schedule=cosine"]) == 0
    assert run(["resume", "run", "--set", "train.steps=9"]) == 2
    assert "train.steps was 6 and is 9" in capsys.readouterr().err


def test_data_that_moved_is_found_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        ctrl_c_in(patch, loop, "step", call=2)
        assert run(["train", "tiny.toml", "--out", "run"]) == 130
    (home / "moved").mkdir()
    for name in ("train.de", "train.en"):
        (home / name).rename(home / "moved" / name)
    assert run(["resume", "run"]) == 3
    assert run(["resume", "run", "--set", 'data.train=["moved/train.de", "moved/train.en"]']) == 0
    assert read_run(home / "run" / "run.toml").data.train[0] == str(home / "moved" / "train.de")


def test_a_run_that_got_no_better_ends_there_again_until_it_may_wait_longer(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop.Trainer, "_is_stale", lambda self: self.config.valid.patience and self.progress.step >= 4)
    settings = ["--set", "valid.every=2", "--set", "valid.patience=1"]
    assert run(["train", "tiny.toml", "--out", "run", *settings]) == 0
    assert run(["resume", "run"]) == 0
    assert steps_of(home / "run") == [1, 2, 3, 4]
    assert run(["resume", "run", "--set", "valid.patience=0"]) == 0
    assert steps_of(home / "run") == [1, 2, 3, 4, 5, 6]


def test_a_folder_without_a_run_is_refused(home: Path, capsys: Captured) -> None:
    assert run(["resume", str(home)]) == 3
    assert "holds no run" in capsys.readouterr().err
