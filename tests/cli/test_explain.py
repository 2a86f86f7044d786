"""`regard explain` as it is used: on a terminal, into files, and for translators, encoders and language models."""

import csv
import json
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from inspection import readings
from models import tiny
from regard.cli.explain import kind_of
from regard.cli.main import cli, run
from regard.errors import UserError
from regard.inspection.capture import SCHEMA
from regard.weights.store import save_model
from tasks import generators, translators

TEXT = "O livro está em cima da mesa."


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encoder")
    size = translators.tokenizer().vocab_size
    save_model(tiny.make("bert", vocab_size=size, max_len=128, heads=(), pad_id=size - 1), folder)
    translators.tokenizer().save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(translators.save(tmp_path_factory.mktemp("translator")))


def here(*args: str, text: str = "") -> Result:
    """Without a process of its own; errors come as they are."""
    return CliRunner().invoke(cli, ["explain", *args], input=text, catch_exceptions=False, standalone_mode=False)


def capture(*args: str) -> dict[str, Any]:
    return json.loads(here(*args, "--json").stdout)


def test_the_table_is_printed_with_blocks_for_the_weights(encoder: str) -> None:
    done = here("--model", encoder, "--token", "livro", "--layer", "1", "--head", "2", TEXT)
    rows = done.stdout.splitlines()
    assert rows[0].endswith("self-attention of the encoder, layer 1 head 2")
    assert rows[2].split() == ["key", "q·k", "scaled", "weight"]
    numbers = [row.split() for row in rows[3 : rows.index("", 3)]]
    weights = [float(next(cell for cell in reversed(row) if cell[0].isdigit())) for row in numbers]
    assert sum(weights) == pytest.approx(1, abs=2e-3)
    assert "feed-forward" in done.stdout
    assert "differs from the model's own by" in rows[-1]
    assert max(map(len, rows)) <= 80


def test_every_file_holds_the_same_numbers(encoder: str, tmp_path: Path) -> None:
    kinds = ("csv", "npy", "png", "svg", "html")
    files = [part for kind in kinds for part in (f"--{kind}", str(tmp_path / f"x.{kind}"))]
    asked = ["--model", encoder, "--token", "#2", "--layer", "0", "--head", "1", TEXT]
    found = json.loads(here(*asked, *files, "--json").stdout)["payloads"][0]
    weights = [row["weight"] for row in found["keys"]]
    rows = list(csv.reader((tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row[4]) for row in rows[1:]] == pytest.approx(weights)
    assert np.load(tmp_path / "x.npy")[:, 2].tolist() == pytest.approx(weights)
    titles = [each.text for each in xml.parse(tmp_path / "x.svg").iter("{http://www.w3.org/2000/svg}title")]
    assert any(title and title.endswith(f"{weights[0]:.4f}") for title in titles)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    html = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<svg" in html
    assert f"{weights[0]:.6g}" in html


def test_json_is_a_capture(encoder: str) -> None:
    found = capture("--model", encoder, "--token", "livro", "--layer", "0", "--head", "0", TEXT)
    assert found["schema"] == SCHEMA
    assert found["request"] == {
        "verb": "explain",
        "text": TEXT,
        "model": encoder,
        "token": "livro",
        "layer": 0,
        "head": 0,
    }
    assert found["model"]["layout"] == "bert"
    assert "".join(token["text"] for token in found["tokens"]["source"][:3])


def test_without_a_head_it_is_the_most_decided_and_that_is_said(encoder: str) -> None:
    done = here("--model", encoder, "--token", "livro", TEXT)
    assert "of all heads this is the most decided" in done.stdout
    found = capture("--model", encoder, "--token", "livro", TEXT)["payloads"][0]
    ordinary = [row["weight"] for row in found["keys"][:-1] if row["i"] != found["query"]["i"]]
    for layer in range(2):
        for head in range(4):
            asked = ["--layer", str(layer), "--head", str(head)]
            other = capture("--model", encoder, "--token", "livro", *asked, TEXT)["payloads"][0]
            rows = [row["weight"] for row in other["keys"][:-1] if row["i"] != other["query"]["i"]]
            assert max(rows) <= max(ordinary)


def test_a_pronoun_gets_the_head_that_is_best_with_pronouns(encoder: str) -> None:
    done = here("--model", encoder, "the table is it")
    assert "this is #" in done.stderr
    assert "“it”" in done.stderr
    assert "nearest noun" in done.stdout.splitlines()[-1]
    found = capture("--model", encoder, "--token", "it", "the table is it")
    explained, heads = found["payloads"]
    judged = heads["judged"]
    assert (explained["layer"], explained["head"]) == (judged["layer"], judged["head"])
    assert judged["n"] >= 25
    assert judged["verdict"] in done.stdout


def test_a_translator_is_asked_about_a_word_that_it_wrote(translator: str) -> None:
    ours = translators.translator()(TEXT, n_best=1)
    word = ours.alignment(words=True).target[0]
    found = capture("--model", translator, "--token", word, TEXT)["payloads"][0]
    best = ours.explain(word)
    assert (found["kind"], found["layer"], found["head"]) == ("cross", best.layer, best.head)
    assert [row["weight"] for row in found["keys"]] == pytest.approx(best.weights.tolist(), abs=1e-4)
    assert found["query"]["text"] == best.query_name


@pytest.mark.parametrize(("kind", "found"), [("self", "encoder"), ("encoder", "encoder"), ("decoder", "decoder")])
def test_other_kinds_of_a_translator(translator: str, kind: str, found: str) -> None:
    token = ["--token", "livro"] if found == "encoder" else ["--token", "#1"]
    assert capture("--model", translator, "--kind", kind, *token, TEXT)["payloads"][0]["kind"] == found


def test_self_means_the_side_on_which_the_word_stands() -> None:
    reading = readings.make("marian")
    assert kind_of(reading, "self", "w2") == "encoder"
    assert kind_of(reading, "self", "w12") == "decoder"
    assert kind_of(reading, None, "w12") == "cross"
    assert kind_of(readings.make("gpt2"), "self", "w12") == "decoder"


def test_a_language_model_says_what_comes_next(tmp_path: Path) -> None:
    folder = generators.save(tmp_path / "llama", generators.model(), chat=None)
    done = here("--model", str(folder), "--layer", "0", "--head", "3", TEXT)
    assert "the next token: " in done.stdout
    assert done.stdout.count("closed: future") == 1  # the last word sees all but the end
    first = here("--model", str(folder), "--layer", "0", "--head", "3", "--token", "#1", TEXT)
    assert first.stdout.count("closed: future") > 5


def test_a_word_that_stands_twice_is_told(encoder: str) -> None:
    done = here("--model", encoder, "--layer", "0", "--head", "0", "--token", "mesa", "mesa casa mesa")
    assert "'mesa' stands at #" in done.stderr


def test_stdin_is_one_text(encoder: str) -> None:
    asked = ["--model", encoder, "--layer", "0", "--head", "0", "--token", "livro"]
    assert here(*asked, text="O livro\nA casa\n").stdout == here(*asked, "O livro A casa").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--token", "nowhere", TEXT], "there is no token 'nowhere'"),
        (["--layer", "9", TEXT], "has no layer 9"),
        (["--head", "9", TEXT], "has no head 9"),
        (["--kind", "cross", TEXT], "no cross attention"),
    ],
)
def test_what_is_not_there_is_refused(encoder: str, args: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        here("--model", encoder, *args)


@pytest.mark.parametrize(
    "args",
    [
        ["--exercise", "--positions"],
        ["--exercise", TEXT],
        ["--positions", TEXT],
        ["--svg", "no/such/folder/x.svg", TEXT],
        ["--model", "no-such-model", TEXT],
        ["--layer", "-1", TEXT],
    ],
)
def test_mistakes_are_told_at_once(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", *args]) in (2, 3)
    assert capsys.readouterr().err.startswith("error: ")


def test_positions_of_a_model_and_of_the_paper(encoder: str, tmp_path: Path) -> None:
    done = here("--positions", "--svg", str(tmp_path / "p.svg"))
    assert "sinusoidal positions: 64 x 64" in done.stdout
    assert "PE(t+1) = M PE(t) with one M for all t" in done.stdout
    assert xml.parse(tmp_path / "p.svg").getroot().attrib["role"] == "img"
    assert "learned positions" in here("--positions", "--model", encoder).stdout
    found = capture("--positions", "--model", encoder)
    assert found["payloads"][0]["kind"] == "learned"
    assert found["model"]["layout"] == "bert"


def test_the_exercise_and_its_solution() -> None:
    bare, full = here("--exercise").stdout, here("--solution").stdout
    assert bare.startswith("# Self-attention by hand")
    assert bare.count("|") == full.count("|")
    assert "| Action |  |" in bare
    assert "| Action |  |" not in full.partition("## Query: gets")[0].partition("## Query")[2]
    assert capture("--solution")["payloads"][0]["type"] == "exercise"
    assert here("--solution", "--seed", "4").stdout != full
