"""`regard answer` as it is used: questions from arguments, pipes and tables; answers as lines and as JSON."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import regard
from regard.cli.main import cli, run
from regard.errors import UserError
from regard.tasks.answerer import Answerer
from tasks.span_readers import save

CONTEXT = "President Obama flew to\nSan Francisco, where the U.S. Senate\r\nis not. " * 4
QUESTIONS = ["Who flew?", "Where to?", "Who flew?", "zanzibar"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("model"), "span"))


@pytest.fixture(scope="module")
def answer(directory: str) -> Answerer:
    loaded = regard.load(directory)
    assert isinstance(loaded, Answerer)
    return loaded


@pytest.fixture
def context(tmp_path: Path) -> str:
    (tmp_path / "context.txt").write_bytes(CONTEXT.encode())
    return str(tmp_path / "context.txt")


def here(*args: str, text: str = "") -> list[str]:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["answer", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout.splitlines()


def tables(folder: Path) -> list[Path]:
    paths = [folder / f"questions{kind}" for kind in (".csv", ".jsonl")]
    with paths[0].open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("n", "context", "question"), *((1, CONTEXT, q) for q in QUESTIONS)])
    rows = [json.dumps({"question": question, "context": CONTEXT}) for question in QUESTIONS]
    paths[1].write_text("\n".join(rows), encoding="utf-8")
    return paths


def renamed(folder: Path) -> str:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(json.dumps({"ask": q, "body": CONTEXT}) for q in QUESTIONS), encoding="utf-8")
    return str(path)


def test_questions_come_from_arguments_stdin_and_tables(
    directory: str, answer: Answerer, context: str, tmp_path: Path
) -> None:
    expected = [" ".join(answer(question, CONTEXT).text.split()) for question in QUESTIONS]
    given = "\n".join(QUESTIONS)
    assert len(set(expected)) > 1
    for found in (
        here("--model", directory, "--context", context, *QUESTIONS),
        here("--model", directory, *QUESTIONS, "--text", CONTEXT),
        here("--model", directory, "--context", context, text=given),
        here("--model", directory, "--context", context, "-", text=given),
        *(here("--model", directory, "--file", str(path)) for path in tables(tmp_path)),
        here("--model", directory, "--file", renamed(tmp_path), "--column", "ask", "--column", "body"),
    ):
        assert found == expected


def test_json_says_where_in_the_text_each_answer_stands(directory: str, answer: Answerer, context: str) -> None:
    rows = [json.loads(line) for line in here("--model", directory, "--context", context, "--json", *QUESTIONS)]
    assert [row["question"] for row in rows] == QUESTIONS
    assert all(CONTEXT[row["start"] : row["end"]] == row["text"] for row in rows)
    assert "alternatives" not in rows[0]
    (row,) = map(json.loads, here("--model", directory, "--context", context, "--json", "--top", "3", "Who?"))
    best = answer("Who?", CONTEXT, top=3)
    assert [each["start"] for each in (row, *row["alternatives"])] == [b.start for b in (best, *best.alternatives)]


def test_several_answers_stand_below_each_other_with_number_and_probability(
    directory: str, answer: Answerer, context: str
) -> None:
    found = [
        line.split("\t") for line in here("--model", directory, "--context", context, "--top", "2", "Who?", "Why?")
    ]
    assert [line[0] for line in found] == ["1", "1", "2", "2"]
    best = answer("Why?", CONTEXT, top=2)
    assert found[2][1:] == [f"{best.score:.4f}", " ".join(best.text.split())]


def test_answers_have_at_most_as_many_tokens_as_asked(directory: str, context: str) -> None:
    assert all(
        " " not in line for line in here("--model", directory, "--context", context, "--max-tokens", "1", "Who?")
    )


def test_where_there_may_be_no_answer_the_threshold_decides(directory: str, context: str) -> None:
    args = ["--model", directory, "--context", context, "--no-answer", "Who?"]
    assert here(*args, "--threshold", "-1000") == [""]
    assert here(*args, "--threshold", "1000") == here("--model", directory, "--context", context, "Who?")


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["Who?"], "there is no text that could answer"),
        (["Who?", "--text", "Obama", "--context", "{txt}"], "both --context and --text"),
        (["Who?", "--text", " "], "--text has no text"),
        (["Who?", "--context", "{nowhere}"], "there is no file .*nowhere.txt"),
        (["Who?", "--file", "{csv}"], "both questions and --file"),
        (["--file", "{txt}"], "is no table"),
        (["--file", "{csv}", "--column", "question"], "is given 1 times"),
        (["Who?", "--text", "He.", "--column", "question"], "--column is for --file"),
        (["--file", "{tsv}"], "has no column 'context'"),
        (["Who?", "--text", "Obama", "--threshold", "1"], "--threshold is for --no-answer"),
    ],
)
def test_mistakes_are_told_before_the_model_is_opened(tmp_path: Path, args: list[str], error: str) -> None:
    tables(tmp_path)
    (tmp_path / "context.txt").write_text(CONTEXT)
    (tmp_path / "questions.tsv").write_text("question\ttext\nWho?\tObama\n")
    names = {"txt": "context.txt", "nowhere": "nowhere.txt", "csv": "questions.csv", "tsv": "questions.tsv"}
    paths = {name: tmp_path / file for name, file in names.items()}
    with pytest.raises(UserError, match=error) as caught:
        here("--model", "no such model", *(arg.format(**paths) for arg in args))
    assert caught.value.hint


def test_without_a_model_it_is_said_how_to_come_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["answer", "Who?", "--text", "Obama flew."]) == 2
    assert "regard train --task answer" in capsys.readouterr().err
