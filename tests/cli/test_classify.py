"""`regard classify` as it is used: texts and pairs from everywhere, labels to people and to programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import regard
from regard.cli import classify as verb
from regard.cli.main import cli, run
from regard.errors import UserError
from regard.tasks.classifier import Classification
from regard.tasks.zero_shot import ZeroShot
from tasks import generators, readers

TEXTS = ["A dog.", "Nothing is as it was", "", "one", "A dog."]
PAIRS = [("A man sleeps.", "Someone is asleep."), ("a", "b"), ("", "one")]


@pytest.fixture(scope="module")
def directory(bert_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    readers.save(folder, "bert classification", bert_dir, id2label={0: "bad", 1: "so so", 2: "good"})
    return str(folder)


@pytest.fixture(scope="module")
def classify(directory: str) -> Any:
    return regard.load(directory)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "CHUNK", 2)


def here(*args: str, text: str = "") -> list[str]:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["classify", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout.splitlines()


def table(path: Path, columns: list[str], rows: list[tuple[str, ...]]) -> str:
    lines = [",".join(columns), *(",".join(f'"{text}"' for text in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_texts_come_from_arguments_stdin_files_and_tables(directory: str, classify: Any, tmp_path: Path) -> None:
    found = classify(TEXTS)
    expected = [f"{each.label}\t{each.score:.4f}\t{text}" for each, text in zip(found, TEXTS, strict=True)]
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    csv = table(tmp_path / "texts.csv", ["n", "body"], [(str(n), text) for n, text in enumerate(TEXTS)])
    usual = table(tmp_path / "usual.csv", ["n", "Text"], [(str(n), text) for n, text in enumerate(TEXTS)])
    for shown in (
        here("--model", directory, *TEXTS),
        here("--model", directory, "--file", usual),
        here("--model", directory, text="\n".join(TEXTS) + "\n"),
        here("--model", directory, "--file", str(tmp_path / "texts.txt")),
        here("--model", directory, "--file", csv, "--column", "body"),
    ):
        assert shown == expected


def test_a_text_that_is_too_long_is_cut_and_that_is_told(directory: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["classify", "--model", directory, "A dog.", "a " * 3_000, "b " * 3_000]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert "note: 2 texts have more than the" in shown.err
    assert run(["classify", "--model", directory, "A dog."]) == 0
    assert "note" not in capsys.readouterr().err


def test_pairs_come_from_arguments_stdin_and_tables(directory: str, classify: Any, tmp_path: Path) -> None:
    found = classify(PAIRS)
    expected = [f"{each.label}\t{each.score:.4f}\t{a}\t{b}" for each, (a, b) in zip(found, PAIRS, strict=True)]
    lines = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
    (tmp_path / "pairs.tsv").write_text(lines)
    (tmp_path / "pairs.txt").write_text(lines)
    csv = table(tmp_path / "pairs.csv", ["b", "n", "a"], [(b, "1", a) for a, b in PAIRS])
    usual = table(tmp_path / "u.csv", ["n", "Premise", "hypothesis"], [("1", *pair) for pair in PAIRS])
    for shown in (
        here("--model", directory, "--pairs", "--file", usual),
        here("--model", directory, "--pairs", *(text for pair in PAIRS for text in pair)),
        here("--model", directory, "--pairs", text=lines),
        here("--model", directory, "--pairs", "--file", str(tmp_path / "pairs.txt")),
        here("--model", directory, "--pairs", "--file", str(tmp_path / "pairs.tsv")),
        here("--model", directory, "--file", csv, "--column", "a", "--column", "b"),
    ):
        assert shown == expected


def test_json_is_one_object_a_text(directory: str, classify: Any) -> None:
    for option in ("--json", "--jsonl"):
        rows = [json.loads(line) for line in here("--model", directory, option, *TEXTS)]
        assert [row["text"] for row in rows] == TEXTS
        for row, each in zip(rows, classify(TEXTS), strict=True):
            assert row["label"] == each.label
            assert row["scores"] == pytest.approx(each.scores, abs=1e-6)
    (row,) = map(json.loads, here("--model", directory, "--json", "--top", "2", "--pairs", "a", "b"))
    assert (row["text"], row["pair"], len(row["scores"])) == ("a", "b", 2)


def test_the_likeliest_labels_are_numbered_by_text(directory: str, classify: Any) -> None:
    shown = [line.split("\t") for line in here("--model", directory, "--top", "3", "A dog.", "one\ttwo\nthree")]
    assert [line[0] for line in shown] == ["1", "1", "1", "2", "2", "2"]
    assert [line[1] for line in shown[:3]] == [label for label, _ in classify(["A dog."])[0].best()]
    assert {line[3] for line in shown[3:]} == {"one two three"}  # a tab or a new line would be another field


VALUE = Classification({"LABEL_0": 3.25}, "regression")
SEVERAL = Classification({"a": 0.75, "b": 0.1, "c": 0.5}, "multi_label_classification")
NONE = Classification({"a": 0.25, "b": 0.1}, "multi_label_classification")


def test_values_and_labels_that_stand_for_themselves_are_shown_as_such() -> None:
    assert list(verb.plain(("x",), VALUE, 1, None)) == ["3.2500\tx"]
    assert list(verb.plain(("x",), SEVERAL, 1, None)) == ["a,c\t0.7500,0.5000\tx"]
    assert list(verb.plain(("x",), NONE, 1, None)) == ["\t\tx"]
    assert verb.described(("x", "y"), VALUE, None) == {"text": "x", "pair": "y", "value": 3.25}
    assert verb.described(("x",), SEVERAL, None)["labels"] == ["a", "c"]
    assert verb.described(("x",), NONE, 1) == {
        "text": "x", "labels": [], "label": "a", "score": 0.25, "scores": {"a": 0.25}
    }  # fmt: skip


def test_a_person_sees_bars() -> None:
    assert list(verb.drawn(("x", "y"), VALUE, None)) == ["   3.2500  x | y"]
    assert list(verb.drawn(("x",), Classification({"a": 0.25, "bb": 0.75}), None)) == [
        "bb            75.0 % ███████▌    x"
    ]
    assert list(verb.drawn(("x",), SEVERAL, None)) == [
        "x",
        "  a             75.0 % ███████▌  ",
        "  c             50.0 % █████     ",
    ]
    assert list(verb.drawn(("x",), NONE, None)) == ["(no label)  x"]


def test_zero_shot_asks_a_language_model(tmp_path: Path) -> None:
    folder = generators.save(tmp_path, generators.model(), chat=None)
    labels, template = ["mesa", "a casa", "livro"], "O {text}\né {label}"
    for by in ("prior", "length", "sum"):
        ours = ZeroShot(regard.load(folder), labels, template, by=by)(["da mesa", "The table"])  # type: ignore[arg-type]
        rows = here(
            "--zero-shot", "--model", str(folder), "--labels", "mesa, a casa,livro", "--by", by,
            "--template", "O {text}\\né {label}", "--json", "--precision", "fp32", "da mesa", "The table",
        )  # fmt: skip
        for row, found in zip(map(json.loads, rows), ours, strict=True):
            assert row["scores"] == pytest.approx(found.scores, abs=1e-6)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--labels", "a,b"], "--labels is for --zero-shot"),
        (["--by", "sum"], "--by is for --zero-shot"),
        (["--zero-shot"], "--zero-shot needs labels"),
        (["--zero-shot", "--labels", "a"], "there are not two different labels"),
        (["--zero-shot", "--labels", "a,,b"], "a label is empty"),
        (["--zero-shot", "--labels", "a,b", "--template", "{text}"], "does not ask for a label"),
        (["--zero-shot", "--labels", "a,b", "--pairs"], "is for single texts"),
        (["--pairs", "three"], "3 texts are no pairs"),
        (["--column", "a"], "--column is for tables"),
        (["--file", "nowhere.txt"], "both texts and --file"),
    ],
    ids=str,
)
def test_mistakes_are_told_before_the_model_is_opened(args: list[str], error: str) -> None:
    with pytest.raises(UserError, match=error) as caught:
        here("--model", "no such model", *args, "one", "two")
    assert caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("number", [1, 3])
def test_three_columns_or_one_of_a_pair_are_refused(number: int, tmp_path: Path) -> None:
    csv = table(tmp_path / "pairs.csv", ["a", "b", "c"], [("x", "y", "z")])
    columns = [arg for name in "abc"[:number] for arg in ("--column", name)]
    with pytest.raises(UserError, match=f"--column was given {number} times"):
        here("--file", csv, "--pairs", *columns)


def test_a_line_that_is_no_pair_is_named(directory: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text("a\tb\nc\n")
    assert run(["classify", "--model", directory, "--pairs", "--file", str(tmp_path / "pairs.txt")]) == 3
    assert "line 2 has 1 fields" in capsys.readouterr().err


def test_without_a_model_the_way_to_one_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["classify", "text"]) == 2
    shown = capsys.readouterr().err
    assert "--model" in shown
    assert "`regard train --task classify --data reviews.csv --init minilm --out runs/reviews`" in shown
    assert "--zero-shot --labels" in shown


def test_a_model_for_something_else_is_told_what_it_is_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = generators.save(tmp_path, generators.model(), chat=None)
    assert run(["classify", "--model", str(folder), "text"]) == 3
    assert "cannot classify texts: its model is made to generate" in capsys.readouterr().err
