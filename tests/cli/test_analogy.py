"""`regard analogy`, `regard convert` to a text file and `regard embed --words`, as they are used."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from regard.cli.main import cli, run
from tasks.planted import PLANTED, save


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("model")))


def here(*args: str, text: str = "") -> str:
    done = CliRunner().invoke(cli, list(args), input=text, catch_exceptions=False, standalone_mode=False)
    return done.stdout


@pytest.mark.parametrize(
    "words", [["man + aunt - uncle"], ["man", "+", "aunt", "-", "uncle"], ["uncle", "aunt", "man"], ["man+aunt-uncle"]]
)
def test_a_sum_may_be_written_in_several_ways(directory: str, words: list[str]) -> None:
    score, word = here("analogy", "--model", directory, "--top", "1", *words).split()
    assert word == "woman"
    assert float(score) > 0.9


def test_several_sums_come_as_arguments_or_through_a_pipe(directory: str) -> None:
    sums = ["man + aunt - uncle", "bank - man"]
    typed = here("analogy", "--model", directory, "--json", *sums)
    assert typed == here("analogy", "--model", directory, "--json", text="\n".join(sums))
    rows = [json.loads(line) for line in typed.splitlines()]
    assert [row["plus"] for row in rows] == [["man", "aunt"], ["bank"]]
    assert [row["minus"] for row in rows] == [["uncle"], ["man"]]
    assert rows[0]["answers"][0]["word"] == "woman"
    assert len(rows[0]["answers"]) == len(PLANTED) - 3
    numbered = here("analogy", "--model", directory, "--top", "1", *sums)
    assert [line.split("\t")[0] for line in numbered.splitlines()] == ["1", "2"]


def test_mistakes_are_told(directory: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analogy", "man", "+", "--model", directory]) == 2
    assert "'man +' is no sum of words" in capsys.readouterr().err
    assert run(["analogy", "womann", "--model", directory]) == 3
    assert "did you mean woman or man?" in capsys.readouterr().err
    assert run(["embed", "man", "--words", "--search", "x", "--model", directory]) == 2


def test_without_a_model_the_bundled_vectors_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """What the lecture shows, with its signs the right way round."""
    assert run(["analogy", "man + aunt - uncle", "--top", "1"]) == 0
    assert capsys.readouterr().out.split()[-1] == "woman"


def test_a_wrong_sum_is_told_without_torch() -> None:
    code = "import sys; from regard.cli.main import run; run(['analogy', 'man', '+']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_vectors_go_into_a_text_file_which_is_never_replaced_unasked(
    directory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "v.txt"
    assert run(["convert", directory, str(out)]) == 0
    assert out.read_text().startswith(f"{len(PLANTED)} 4\n")
    assert f"{len(PLANTED)} words, 4 numbers each" in capsys.readouterr().err
    assert run(["convert", directory, str(out)]) == 3
    assert run(["convert", directory, str(out), "--overwrite"]) == 0


def test_embed_gives_texts_words_and_what_is_near(directory: str) -> None:
    (vector,) = map(json.loads, here("embed", "--model", directory, "uncle").splitlines())
    assert vector == pytest.approx(PLANTED["uncle"], abs=1e-6)
    (found,) = map(json.loads, here("embed", "--model", directory, "--words", "an uncle").splitlines())
    assert [(word["word"], word["vector"] is None) for word in found["words"]] == [("an", True), ("uncle", False)]
    hits = here("embed", "--model", directory, "--search", "river", "--top", "1", "man", "bank").split("\t")
    assert hits[2].strip() == "bank"
