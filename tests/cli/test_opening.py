"""What a verb says of the model it was given: that there is none, that it is for another verb, what was ignored."""

import json
from pathlib import Path

import pytest

import regard
from parity import tiny
from regard.cli.main import run
from regard.cli.opening import unread_keys
from regard.errors import UserError
from tasks import translators
from weights.checkpoints import change_json, save_tiny

VERBS = [["summary"], *([verb, "text", "--model"] for verb in ("embed", "generate", "translate", "classify", "fill"))]


@pytest.fixture(params=VERBS, ids=lambda verb: verb[0])
def verb(request: pytest.FixtureRequest) -> list[str]:
    return request.param


def test_a_folder_without_a_model_is_called_that(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*verb, str(tmp_path)]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: there is no model in {tmp_path} (no config.json)\n  give ")
    assert "Errno" not in shown
    assert "tokenizer" not in shown


@pytest.mark.parametrize(("folders", "named"), [(["model", "best"], "model"), (["best"], "best")])
def test_the_folder_of_a_run_leads_to_its_model(
    folders: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.toml").touch()
    for folder in folders:
        (tmp_path / folder).mkdir()
    assert run(["translate", "text", "--model", str(tmp_path)]) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert "there is no model in" in first
    assert str(tmp_path / named) in second


@pytest.mark.parametrize(
    "args", [["summary", ""], ["embed", "text", "--model", ""], ["convert", "", "new"]], ids=lambda args: args[0]
)
def test_no_name_at_all_is_a_mistake_of_the_call(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A variable that the shell found empty must not stand for the current folder, or for a default."""
    assert run(args) == 2
    assert "the name of the model is empty" in capsys.readouterr().err


def test_a_name_that_get_knows_is_answered_with_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "--model", "gpt2", "Hi"]) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: there is no model at 'gpt2'"
    assert "`regard get gpt2`" in second


def test_a_name_that_is_nearly_right_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["translate", "--model", "pt-em", "mesa"]) == 3
    assert capsys.readouterr().err.splitlines()[1].strip() == "did you mean 'pt-en'?"
    with pytest.raises(UserError) as found:
        regard.load("mini-lm")
    assert found.value.hint == "did you mean 'minilm'?"


def test_a_model_for_something_else_names_the_verb_that_it_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translators.save(tmp_path)
    assert run(["embed", "--model", str(tmp_path), "text"]) == 3
    shown = capsys.readouterr().err
    assert f"{tmp_path} cannot embed: its model is made to translate" in shown
    assert f"`regard translate --model {tmp_path}`" in shown


# Keys of config.json


def test_keys_that_nobody_knows_are_named_once_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path)
    change_json(tmp_path / "config.json", partial_rotary_factor=0.5, surprise={"a": 1}, _note="x", use_cache=True)
    assert run(["summary", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["layout"] == "gpt2"
    assert err == (
        "config.json has keys this version does not know: partial_rotary_factor, surprise; they were ignored\n"
    )


@pytest.mark.parametrize(
    ("settings", "unread"),
    [
        ({}, []),
        ({"pruned_heads": {}, "quantization_config": None, "bad_words_ids": []}, []),
        ({"pruned_heads": {"0": [1]}}, ["pruned_heads"]),
        ({"is_decoder": False}, []),
        ({"is_decoder": True}, ["is_decoder"]),
        ({"summary_type": "cls_index", "task_specific_params": {"a": 1}, "n_ctx": 6, "embd_pdrop": 0.1}, []),
        ({"n_embd": "x", "surprise": 1}, []),  # refused for what it is when it is opened
    ],
    ids=str,
)
def test_only_what_might_change_a_number_is_told(
    tmp_path: Path, settings: dict[str, object], unread: list[str]
) -> None:
    save_tiny(tmp_path)
    change_json(tmp_path / "config.json", **settings)
    assert unread_keys(tmp_path) == unread


def test_a_key_cannot_write_to_the_terminal_and_many_are_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path)
    change_json(tmp_path / "config.json", **{"\x1b[2J": 1, "a" * 1000: 1}, **{f"z{i:02}": 1 for i in range(20)})
    assert run(["summary", str(tmp_path), "--json"]) == 0
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "and 12 more" in shown
    assert len(shown) < 300


@pytest.mark.parity
def test_all_that_transformers_writes_is_known(tmp_path: Path) -> None:
    for name, (cls, config) in tiny.ALL.items():
        whole = json.dumps({"architectures": [cls], **{k: v for k, v in config.to_dict().items() if v is not None}})
        (tmp_path / "config.json").write_text(whole)
        assert unread_keys(tmp_path) == [], name
