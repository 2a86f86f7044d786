"""`regard fill` as it is used: texts with gaps in, words out."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import regard
from regard.cli import fill as verb
from regard.cli.main import cli, run
from regard.errors import UserError
from regard.tasks.filler import Candidate, Filling
from tasks import readers

TEXTS = ["My dog is [MASK].", "The ___ of the ___", "___"]
TWO = Filling("a b", 0.25, ((Candidate("a", 1, 0.5, "a ___"), Candidate("c", 2, 0.4, "c ___")),) * 2)


@pytest.fixture(scope="module")
def directory(bert_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    readers.save(folder, "bert masked lm, relu", bert_dir)
    return str(folder)


@pytest.fixture(scope="module")
def fill(directory: str) -> Any:
    return regard.load(directory)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "CHUNK", 2)


def here(*args: str, text: str = "") -> list[str]:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["fill", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout.splitlines()


def test_texts_come_from_arguments_stdin_files_and_tables(directory: str, fill: Any, tmp_path: Path) -> None:
    expected = [line for n, text in enumerate(TEXTS, start=1) for line in verb.plain(fill(text, top=2), n)]
    assert len(expected) == 2 + 4 + 1 + 2
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (tmp_path / "texts.csv").write_text("n,body\n" + "".join(f"1,{text}\n" for text in TEXTS))
    for shown in (
        here("--model", directory, "--top", "2", *TEXTS),
        here("--model", directory, "--top", "2", text="\n".join(TEXTS) + "\n"),
        here("--model", directory, "--top", "2", "--file", str(tmp_path / "texts.txt")),
        here("--model", directory, "--top", "2", "--file", str(tmp_path / "texts.csv"), "--column", "body"),
    ):
        assert shown == expected


def test_json_is_one_object_a_text(directory: str, fill: Any) -> None:
    rows = [json.loads(line) for line in here("--model", directory, "--json", *TEXTS)]
    for row, text in zip(rows, TEXTS, strict=True):
        found = fill(text)
        assert (row["text"], row["filled"]) == (text, found.text)
        assert row["score"] == pytest.approx(found.score, rel=1e-4)
        assert [[each["id"] for each in gap] for gap in row["gaps"]] == [[each.id for each in g] for g in found.gaps]


def test_only_targets_fill_where_they_are_given(directory: str) -> None:
    shown = here("--model", directory, "--targets", "happy, sad", "My dog is ___.")
    assert {line.split("\t")[3] for line in shown} == {"happy", "sad"}


def test_a_person_sees_each_gap_and_all_together() -> None:
    assert list(verb.drawn("___ ___", TWO)) == [
        "___ ___",
        "1. a             50.0 % █████       a ___",
        "   c             40.0 % ████        c ___",
        "2. a             50.0 % █████       a ___",
        "   c             40.0 % ████        c ___",
        "together: a b",
    ]


def test_programs_get_tabs() -> None:
    assert list(verb.plain(TWO, 7))[2:] == ["7\t2\t0.5\ta\ta ___", "7\t2\t0.4\tc\tc ___", "7\tall\t0.25\t\ta b"]


def test_mistakes_are_told(directory: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="--targets names an empty word"):
        here("--model", "nowhere", "--targets", "a,,b", "___")
    assert run(["fill", "--model", directory, "___", "___", "no gap"]) == 3
    shown = capsys.readouterr()
    assert "text 3 has no gap to fill" in shown.err
    assert len(shown.out.splitlines()) == 10  # what came before it
    assert run(["fill", "___"]) == 2
    assert "`regard get bert-base-uncased`" in capsys.readouterr().err
