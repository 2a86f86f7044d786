"""`regard generate` as it is used: prompts in, words out as they come."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import regard
from regard.cli.main import cli, run
from regard.decoding.sample import SampleSettings
from regard.errors import UserError
from tasks.generators import model, save

COMMAND = [sys.executable, "-m", "regard", "generate"]
PROMPTS = ["a casa", "O livro", "mesa"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("model"), model()))


@pytest.fixture(scope="module")
def generate(directory: str) -> Any:
    return regard.load(directory)


def here(*args: str, text: str = "") -> str:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["generate", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout


def test_prompts_come_from_arguments_or_stdin(directory: str, generate: Any) -> None:
    ours = "".join(f"{generate(prompt, limit=6)}\n" for prompt in PROMPTS)
    assert here("--model", directory, "--max-new", "6", *PROMPTS) == ours
    assert here("--model", directory, "--max-new", "6", text="\n".join(PROMPTS)) == ours


def test_prompts_come_from_a_file_or_a_column_of_a_table(directory: str, generate: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(PROMPTS), encoding="utf-8")
    (tmp_path / "a.csv").write_text("id,asked\n" + "".join(f"1,{prompt}\n" for prompt in PROMPTS), encoding="utf-8")
    ours = "".join(f"{generate(prompt, limit=6)}\n" for prompt in PROMPTS)
    common = "--model", directory, "--max-new", "6"
    assert here(*common, "--file", str(tmp_path / "a.txt")) == ours
    table = "--file", str(tmp_path / "a.csv"), "--column", "asked"
    assert here(*common, *table) == ours
    found = [json.loads(line) for line in here(*common, *table, "--json").splitlines()]
    assert [row["prompt"] for row in found] == PROMPTS
    assert "".join(f"{row['text']}\n" for row in found) == ours
    with pytest.raises(UserError, match="is a table"):
        here(*common, "--file", str(tmp_path / "a.csv"))


def test_what_is_looked_up_is_what_would_have_been_written(directory: str) -> None:
    args = "--model", directory, "--precision", "fp32", "--max-new", "40", *PROMPTS
    assert here("--lookup", *args) == here(*args)


@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (["--temperature", "1.5"], SampleSettings(temperature=1.5)),
        (["--top-k", "5"], SampleSettings(top_k=5)),
        (["--top-p", "0.9", "--seed", "7"], SampleSettings(top_p=0.9, seed=7)),
        (["--temperature", "2", "--top-k", "9", "--top-p", "0.9", "--seed", "-1"], SampleSettings(2.0, 9, 0.9, -1)),
    ],
)
def test_any_of_the_options_draws_the_same_as_the_library(
    directory: str, generate: Any, args: list[str], settings: SampleSettings
) -> None:
    ours = [found.text for found in generate.many(PROMPTS, limit=6, sampling=settings)]
    assert here("--model", directory, "--max-new", "6", *args, *PROMPTS) == "".join(f"{text}\n" for text in ours)
    rows = here("--model", directory, "--max-new", "6", "--json", *args, *PROMPTS).splitlines()
    assert [json.loads(row)["text"] for row in rows] == ours


def test_json_is_one_object_a_prompt(directory: str, generate: Any) -> None:
    stop = generate("mesa", limit=6).text[3:5]
    rows = here(
        "--model", directory, "--max-new", "6", "--stop", "##", "--stop", stop, "--json", text="\n".join(PROMPTS)
    )
    found = [json.loads(row) for row in rows.splitlines()]
    ours = [generate(prompt, limit=6, stop=[stop]) for prompt in PROMPTS]
    assert [list(row) for row in found] == [["prompt", "text", "reason", "n_tokens"]] * 3
    assert [(row["text"], row["reason"], row["n_tokens"]) for row in found] == [
        (each.text, each.reason, len(each.ids)) for each in ours
    ]
    assert [row["prompt"] for row in found] == PROMPTS
    assert found[2]["reason"] == "stop"


def test_the_system_s_word_goes_before_the_prompt(directory: str, generate: Any) -> None:
    talk = [{"role": "system", "content": "a mesa"}, {"role": "user", "content": "casa"}]
    assert here("--model", directory, "--max-new", "6", "--system", "a mesa", "casa") == f"{generate(talk, limit=6)}\n"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--seed", "1"], "--seed changes nothing"),
        (["--stop", ""], "--stop is empty"),
        (["--lookup", "--top-k", "3"], "both --lookup and --top-k"),
        (["--raw", "--system", "x"], "both --raw and --system"),
    ],
)
def test_mistakes_are_told_before_the_model_is_opened(args: list[str], error: str) -> None:
    with pytest.raises(UserError, match=error) as caught:
        here("--model", "nowhere", *args, "mesa")
    assert caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("args", [["--temperature", "-1"], ["--top-k", "0"], ["--top-p", "0"], ["--top-p", "1.5"]])
def test_senseless_numbers_are_refused_before_any_work(args: list[str]) -> None:
    with pytest.raises(click.UsageError):
        here(*args, "mesa")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_temperature_that_is_no_number_is_refused(directory: str, value: str) -> None:
    with pytest.raises(UserError, match="the temperature is"):
        here("--model", directory, "--temperature", value, "mesa")


def test_system_needs_a_chat_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no chat template"):
        here("--model", str(save(tmp_path, model(), chat=None)), "--system", "x", "mesa")


def test_the_words_come_one_by_one_and_a_reader_may_leave(directory: str) -> None:
    """The first piece is there while the command still writes, and `| head -c 1` ends it quietly."""
    with subprocess.Popen(
        [*COMMAND, "--model", directory, "--max-new", "40"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert None not in (process.stdin, process.stdout, process.stderr)
        process.stdin.write(b"mesa\n" * 500)
        process.stdin.flush()  # and not closed: it cannot have read all
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.wait(timeout=100) == 141
        said = process.stderr.read().decode()
        assert [line for line in said.splitlines() if not line.startswith("opening ")] == []


def test_what_is_not_heeded_is_told_in_one_plain_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, model())
    (tmp_path / "generation_config.json").write_text('{"repetition_penalty": 1.3, "bad_words_ids": [[1, 2]]}')
    for _ in range(2):  # each command tells it, not only the first
        assert run(["generate", "--model", str(tmp_path), "--max-new", "1", "mesa"]) == 0
        path = tmp_path / "generation_config.json"
        assert capsys.readouterr().err.splitlines() == [
            f"warning: {path}: repetition_penalty = 1.3 not supported; the text may differ from transformers'",
            f"warning: {path}: bad_words_ids of several tokens are not supported and may be written",
        ]
