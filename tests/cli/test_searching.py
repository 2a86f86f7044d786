"""`regard embed --search`: the nearest texts, from fresh vectors and from saved ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import regard
from regard.cli import searching
from regard.cli.main import cli, run
from regard.data.nearest import Hit
from regard.errors import UserError
from regard.models.bert import Bert, BertConfig
from regard.weights.store import save_model
from tasks.translators import tokenizer

TEXTS = ["A casa é grande", "", "The table is small", "O livro está em cima da mesa", "A casa"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 1, "max_len": 40}
    folder = tmp_path_factory.mktemp("model")
    save_model(Bert(BertConfig(vocab_size=tokenizer().vocab_size, **sizes)), folder)
    tokenizer().save(folder)
    return str(folder)


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(searching, "CHUNK", 2)
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    (tmp_path / "lines.csv").write_text("n,body\n" + "".join(f"1,{text}\n" for text in TEXTS), encoding="utf-8")
    return str(tmp_path / "lines.txt")


def here(*args: str, text: str = "") -> list[str]:
    """Without a process of its own; errors come as they are."""
    done = CliRunner().invoke(cli, ["embed", *args], input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout.splitlines()


def expected(directory: str, query: str, top: int) -> list[str]:
    """The line of nothing counts as a line, and is near to nothing."""
    embed = regard.load(directory)
    scores = embed(TEXTS) @ embed([query])[0]
    order = sorted((i for i in range(len(TEXTS)) if TEXTS[i]), key=lambda i: (-scores[i], i))[:top]
    return [f"{scores[i]:.4f}\t{i + 1}\t{TEXTS[i]}" for i in order]


def test_score_line_and_text_of_the_nearest_are_shown(directory: str, lines: str) -> None:
    for shown in (
        here("--model", directory, "--search", "A mesa", "--top", "3", "--file", lines),
        here("--model", directory, "--search", "A mesa", "--top", "3", text="\n".join(TEXTS) + "\n"),
        here("--model", directory, "--search", "A mesa", "--top", "3", *TEXTS),
        here(
            "--model", directory, "--search", "A mesa", "--top", "3", "--file", lines[:-3] + "csv", "--column", "body"
        ),
    ):
        assert shown == expected(directory, "A mesa", 3)
    assert here("--model", directory, "--search", "A casa", "--file", lines)[0] == "1.0000\t5\tA casa"
    assert len(here("--model", directory, "--search", "A casa", "--file", lines)) == 4


def test_many_queries_come_from_stdin_and_are_numbered(directory: str, lines: str) -> None:
    queries = ["A mesa", "The house", "livro"]
    ours = [f"{n}\t{line}" for n, query in enumerate(queries, start=1) for line in expected(directory, query, 2)]
    wanted = ["--model", directory, "--top", "2", "--file", lines]
    assert here(*wanted, "--search", "-", text="\n".join(queries) + "\n") == ours
    assert here(*wanted, *(arg for query in queries for arg in ("--search", query))) == ours


def test_vectors_saved_before_give_the_same(directory: str, lines: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "x.npy")
    here("--model", directory, "--file", lines, "--out", saved)
    shown = here("--model", directory, "--search", "A mesa", "--vectors", saved, "--file", lines, "--top", "3")
    assert shown == expected(directory, "A mesa", 3)
    alone = here("--model", directory, "--search", "A mesa", "--vectors", saved, "--top", "4")
    numbers = [line.split("\t")[1] for line in alone if line.split("\t")[1] != "2"]  # nobody knows that it is empty
    assert numbers == [line.split("\t")[1] for line in shown]


def test_json_is_one_object_a_query(directory: str, lines: str) -> None:
    (row,) = map(json.loads, here("--model", directory, "--search", "A casa", "--top", "1", "--json", "--file", lines))
    assert row == {"query": "A casa", "hits": [{"score": 1.0, "line": 5, "text": "A casa"}]}


@pytest.mark.parametrize("more", [["one text too many"], []], ids=["more", "fewer"])
def test_a_file_that_the_vectors_were_not_made_of_is_refused(
    directory: str, lines: str, tmp_path: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((len(TEXTS) + (0 if more else 1), 8), dtype=np.float32))
    Path(lines).write_text("\n".join([*TEXTS, *more]) + "\n", encoding="utf-8")
    args = ["embed", "--model", directory, "--search", "a", "--vectors", str(tmp_path / "x.npy"), "--file", lines]
    assert run(args) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "vectors, but there are" in err


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--top", "3", "x"], "--vectors and --top are for --search"),
        (["--vectors", "x.npy"], "--vectors and --top are for --search"),
        (["--search", "a", "--vectors", __file__], "reads .npy only"),
        (["--search", "x", "--out", "x.npy", "y"], "both --search and --out"),
        (["--search", "-"], "cannot both come from stdin"),
        (["--search", "-", "--file", "-"], "cannot both come from stdin"),
        (["--search", "-", "a", "-"], "cannot both come from stdin"),
        (["--search", "x", "--vectors", "nowhere.npy"], "there is no file nowhere.npy"),
    ],
    ids=str,
)
def test_mistakes_are_told_before_the_model_is_opened(args: list[str], error: str) -> None:
    with pytest.raises(UserError, match=error) as caught:
        here("--model", "no such model", *args)
    assert caught.value.hint


def test_a_person_sees_the_query_above_what_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(searching, "is_screen", lambda: True)
    wanted = searching.Wanted(("a", "b"), None, 1, False)
    searching.show("a\x1b", [Hit(0.5, 12, "text\x1b[2J")], wanted, 2)
    assert capsys.readouterr().out == "\na\\x1b\n 0.500      12  text\\x1b[2J\n"
