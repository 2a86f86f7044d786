"""Each task is scored by what its verb says of each row, in the field's own measure."""

import json
from pathlib import Path
from threading import Event

import pytest

import regard
from regard.cli.main import run
from regard.data.corpus import read_rows
from regard.evaluation.classification import accuracy
from regard.lab.judging import Asked, judge
from regard.training.run import assemble, finish
from training.toys import toy_run


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model for each task, trained for a moment, beside the rows that it was trained on."""
    found = {}
    for name in ("classify", "numbers", "tag", "answer", "fill", "generate"):
        folder = tmp_path_factory.mktemp(name)
        trainer = assemble(toy_run(folder, name, count=40, epochs=1), folder / "run", [])
        trainer.fit(Event())
        finish(trainer)
        found[name] = folder
    return found


MEASURES = {
    "classify": ["accuracy", "F1", "Matthews"], "numbers": ["Pearson", "Spearman", "RMSE"],
    "fill": ["top-1", "perplexity"], "answer": ["answer-F1", "exact-match"],
    "generate": ["perplexity", "bits-per-character"],
    "tag": ["span-F1", "span-precision", "span-recall", "span-F1/ANIMAL", "span-F1/THING"],
}  # fmt: skip


@pytest.mark.parametrize("name", MEASURES)
def test_every_task_has_its_scores(models: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = models[name]
    (data,) = folder.glob("a.*")
    command = ["evaluate", "--model", str(folder / "run" / "model"), "--data", str(data), "--bootstrap", "9", "--json"]
    assert run([*command, "--limit", "25"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [score["name"] for score in found["scores"]] == MEASURES[name]
    assert found["rows"] == 25
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 40


def test_what_is_scored_is_what_the_verb_says(models: dict[str, Path]) -> None:
    folder = models["classify"]
    classify, rows = regard.load(folder / "run" / "model"), list(read_rows(folder / "a.tsv"))
    labels = [each.label for each in classify([row[0] for row in rows])]
    heard: list[int] = []
    found = judge(classify, Asked([folder / "a.tsv"]), heard.append)
    assert found.said == labels
    assert found.scores[0] == accuracy(labels, [row[1] for row in rows])
    assert heard[-1] == 40


def test_labels_that_the_file_calls_otherwise_are_renamed_or_refused(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (models["classify"] / "a.tsv").read_text().replace("\tyes", "\t1").replace("\tno", "\t0")
    (tmp_path / "b.tsv").write_text(text)
    command = ["evaluate", "--model", str(models["classify"] / "run" / "model"), "--data", str(tmp_path / "b.tsv")]
    assert run(command) == 3
    assert "--name" in capsys.readouterr().err
    assert run([*command, "--name", "1=yes", "--name", "0=no", "--bootstrap", "0"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert run([*command, "--name", "yes"]) == 2
