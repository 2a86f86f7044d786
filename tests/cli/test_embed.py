"""`regard embed` as it is used: texts from arguments, pipes and files; vectors to stdout and to files."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regard
from regard.cli import counting
from regard.cli import embed as verb
from regard.cli.main import cli, run
from regard.cli.records import total
from regard.errors import UserError
from regard.models.bert import Bert, BertConfig
from regard.weights.store import save_model
from tasks.translators import tokenizer

TEXTS = ["A casa", "", "The table is small", "O livro está em cima da mesa", "A casa"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 1, "max_len": 40}
    folder = tmp_path_factory.mktemp("model")
    save_model(Bert(BertConfig(vocab_size=tokenizer().vocab_size, **sizes)), folder)
    tokenizer().save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def ours(directory: str) -> Any:
    return regard.load(directory)(TEXTS)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "CHUNK", 2)


def here(*args: str, text: str = "") -> list[list[float]]:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["embed", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def tables(folder: Path) -> list[Path]:
    """The texts in every kind of file, beside a number."""
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    paths = [folder / f"texts{kind}" for kind in (".csv", ".tsv", ".jsonl", ".tsv.gz", ".parquet")]
    csv = ["n,body", *(f'{n},"{text}"' for n, text in enumerate(TEXTS))]
    tsv = ["n\tbody", *(f"{n}\t{text}" for n, text in enumerate(TEXTS))]
    jsonl = [json.dumps({"n": n, "body": text}) for n, text in enumerate(TEXTS)]
    for path, lines in zip(paths, (csv, tsv, jsonl), strict=False):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    paths[3].write_bytes(gzip.compress(paths[1].read_bytes()))
    parquet.write_table(arrow.table({"n": list(range(len(TEXTS))), "body": TEXTS}), paths[4])
    return paths


def test_texts_come_from_arguments_stdin_and_files_of_lines(directory: str, ours: Any, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    (tmp_path / "texts.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    for found in (
        here("--model", directory, *TEXTS),
        here("--model", directory, text="\n".join(TEXTS)),
        here("--model", directory, "--file", "-", text="\n".join(TEXTS)),
        here("--model", directory, "--file", str(path)),
        here("--model", directory, "--file", f"{path}.gz"),
    ):
        np.testing.assert_allclose(found, ours, rtol=0, atol=1e-6)


def test_texts_come_from_the_named_column_of_a_table(directory: str, ours: Any, tmp_path: Path) -> None:
    for path in tables(tmp_path):
        found = here("--model", directory, "--file", str(path), "--column", "body")
        np.testing.assert_allclose(found, ours, rtol=0, atol=1e-6)


def test_vectors_go_to_a_file_and_nothing_to_stdout(directory: str, ours: Any, tmp_path: Path) -> None:
    for kind in (".npy", ".jsonl", ".parquet"):
        assert here("--model", directory, "--out", str(tmp_path / f"vectors{kind}"), *TEXTS) == []
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), ours, rtol=0, atol=1e-6)
    rows = [json.loads(line) for line in (tmp_path / "vectors.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    np.testing.assert_allclose([row["vector"] for row in rows], ours, rtol=0, atol=1e-6)
    again = here("--model", directory, "--file", str(tmp_path / "vectors.jsonl"), "--column", "text")
    np.testing.assert_allclose(again, ours, rtol=0, atol=1e-6)  # what was written can be read


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--out", "vectors.bin", "mesa"], "does not end like a file of vectors"),
        (["--file", "{tsv}"], "is a table"),
        (["--file", "{tsv}", "--column", "text"], "has no column 'text'"),
        (["--file", "{tsv}", "--column", "body", "mesa"], "both texts and --file"),
        (["--file", "{txt}", "--column", "body"], "--column is for tables"),
        (["--column", "body", "mesa"], "--column is for tables"),
        (["--file", "{nowhere}.txt"], "there is no file"),
        (["--file", "{nowhere}.csv", "--column", "body"], "is not a file"),
    ],
)
def test_mistakes_are_told_before_the_model_is_opened(tmp_path: Path, args: list[str], error: str) -> None:
    tables(tmp_path)
    (tmp_path / "texts.txt").touch()
    names = {"tsv": tmp_path / "texts.tsv", "txt": tmp_path / "texts.txt", "nowhere": tmp_path / "nowhere"}
    with pytest.raises(UserError, match=error) as caught:
        here("--model", "no such model", *(arg.format(**names) for arg in args))
    assert caught.value.hint


def test_a_file_is_not_left_half_written(directory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fifth line is no text: what came before it is no file."""
    path = tmp_path / "texts.txt"
    path.write_bytes(b"a\nb\nc\nd\n\xff\n")
    assert run(["embed", "--model", directory, "--file", str(path), "--out", str(tmp_path / "new.npy")]) == 3
    assert "line 5: not UTF-8" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_left_is_told_where_it_is_known(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counting, "PLAIN_SECONDS", 0.0)
    monkeypatch.setattr("regard.cli.progress.PLAIN_SECONDS", 0.0)
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    assert run(["embed", "--model", directory, "--file", str(path), "--out", str(tmp_path / "new.npy")]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" texts, ")[0] for line in said] == ["2/5", "4/5", "5"]
    assert all("a second" in line for line in said)
    assert said[0].endswith(" left")


def test_how_many_there_are_is_asked_of_the_file(tmp_path: Path) -> None:
    assert [total(path) for path in tables(tmp_path)] == [5, 5, 5, None, 5]
    assert total(None) is None
    (tmp_path / "a.conll").write_text("a\tO\nb\tO\n")  # two lines, one sentence
    assert total(tmp_path / "a.conll") is None
