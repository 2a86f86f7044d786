"""`regard evaluate` as it is used: pairs in, sacrebleu's scores out."""

import json
import re
from pathlib import Path

import pytest

from regard.cli.main import run
from regard.evaluation.translation import bleu, chrf
from tasks.translators import save, translator

SOURCES = ["O livro está em cima da mesa.", "A casa é grande", "mesa", "a mesa é pequena"]
REFERENCES = ["The book is on the table.", "The house is big", "table", "the table is small"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("model")))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """--data twice: a file a side."""
    return ["--data", write(tmp_path / "test.pt", SOURCES), "--data", write(tmp_path / "test.en", REFERENCES)]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_json_holds_sacrebleus_scores_of_the_beams_translations(
    model: str, files: list[str], tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "out.txt"
    command = ["evaluate", "--model", model, *files, "--beam", "2", "--bootstrap", "20", "--out", str(out), "--json"]
    assert run(command) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    texts = [each.text for each in translator().many(SOURCES, beam=2)]
    assert out.read_text(encoding="utf-8").split("\n")[:-1] == texts
    assert (found["task"], found["rows"], found["beam"]) == ("translate", 4, 2)
    for score, metric in zip(found["scores"], (bleu, chrf), strict=True):
        ours = metric(texts, REFERENCES, bootstrap=20)
        assert score == {"name": ours.name, "value": ours.value, "signature": ours.signature} | {
            "low": ours.low,
            "high": ours.high,
        }
    assert "4 rows" in shown.err


def test_what_the_model_said_is_written_whole_or_not_at_all(
    model: str, files: list[str], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    out = write(tmp_path / "out.txt", ["of yesterday"])
    monkeypatch.setattr("os.fsync", full)
    assert run(["evaluate", "--model", model, *files, "--beam", "1", "--bootstrap", "0", "--out", out]) == 3
    assert f"cannot write {out}: No space left" in capsys.readouterr().err
    assert Path(out).read_text() == "of yesterday\n"
    assert not list(tmp_path.glob(".*"))


def test_without_json_a_score_is_a_line_and_its_signature_one(model: str, files: list[str], capsys: Captured) -> None:
    assert run(["evaluate", "--model", model, *files, "--beam", "1", "--bootstrap", "9", "--limit", "2"]) == 0
    shown = capsys.readouterr()
    first, signature, second, _ = shown.out.splitlines()
    assert re.fullmatch(r"BLEU \d+\.\d\d \[-?\d+\.\d\d, -?\d+\.\d\d\]", first)
    assert "tok:13a" in signature
    assert second.startswith("chrF ")
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "2 rows" in shown.err


@pytest.mark.parametrize("name", ["test.tsv", "test.csv", "test.jsonl"])
def test_the_columns_of_a_table_are_chosen_by_name(model: str, tmp_path: Path, capsys: Captured, name: str) -> None:
    rows = list(zip(REFERENCES, map(str, range(4)), SOURCES, strict=True))
    keys = ("english", "number", "portuguese")
    if name.endswith("jsonl"):
        lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    else:
        lines = [("\t" if name.endswith("tsv") else ",").join(row) for row in [keys, *rows]]
    data = ["--data", write(tmp_path / name, lines), "--column", "portuguese", "--column", "english"]
    assert run(["evaluate", "--model", model, *data, "--beam", "1", "--bootstrap", "0", "--json"]) == 0
    texts = [each.text for each in translator().many(SOURCES, beam=1)]
    found = json.loads(capsys.readouterr().out)
    assert found["scores"][1]["value"] == chrf(texts, REFERENCES).value


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        ([], [], "--data has no rows"),
        (["a\tb"], ["--column", "x", "--column", "b"], "no column 'x'"),
        (["a\tb"], ["--out", "{folder}"], "cannot be written"),
        (["a\tb"], ["--out", "{folder}/nowhere/out.txt"], "cannot be written"),
    ],
)
def test_data_that_cannot_be_read_is_refused_before_the_model_is_opened(
    tmp_path: Path, capsys: Captured, lines: list[str], options: list[str], message: str
) -> None:
    data = write(tmp_path / "test.tsv", lines)
    named = [option.format(folder=tmp_path) for option in options]
    assert run(["evaluate", "--model", "there is none", "--data", data, *named]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("line", "n"), [("a\tb\tc", 3), ("a", 1)])
def test_data_that_is_not_pairs_is_refused(model: str, tmp_path: Path, capsys: Captured, line: str, n: int) -> None:
    assert run(["evaluate", "--model", model, "--data", write(tmp_path / "test.tsv", [line])]) == 3
    assert f"--data has 1 rows of {n} columns" in capsys.readouterr().err


@pytest.mark.parametrize("bootstrap", ["0", "30"])
@pytest.mark.parametrize(
    "pairs", [[("mesa", ""), ("O livro", "book")], [("", "table"), ("O livro", "book")], [("", ""), ("", "")]]
)
def test_empty_sources_and_references_are_scored_and_told_of(
    model: str, tmp_path: Path, capsys: Captured, pairs: list[tuple[str, str]], bootstrap: str
) -> None:
    sides = [write(tmp_path / f"side{i}.txt", [pair[i] for pair in pairs]) for i in (0, 1)]
    data = ["--data", sides[0], "--data", sides[1]]
    assert run(["evaluate", "--model", model, *data, "--beam", "1", "--bootstrap", bootstrap, "--json"]) == 0
    shown = capsys.readouterr()
    assert all(0 <= score["value"] <= 100 for score in json.loads(shown.out)["scores"])
    empty = sum(not (a and b) for a, b in pairs)
    assert f"{empty} of 2 pairs lack a text on one side" in shown.err


def test_no_interval_is_drawn_a_hundred_million_times(model: str, capsys: Captured) -> None:
    assert run(["evaluate", "--model", model, "--data", "x", "--bootstrap", "100000000"]) == 2
    assert "0<=x<=100000" in capsys.readouterr().err
