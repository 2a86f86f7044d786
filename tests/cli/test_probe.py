"""`regard probe` as it is used: a model in, a report out."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.probe import toys
from regard.cli.main import run
from regard.cli.train import find_recipe, with_absolute_paths
from regard.lab.probe import pairs
from regard.lab.probe.sets import SHIPPED
from regard.training.folder import read_run

TEXTS = [line for name in ("pairs", "pronouns", "professions", "salaries") for line in
         (SHIPPED / f"{name}.jsonl").read_text().splitlines()]  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return toys.save(tmp_path_factory.mktemp("model"), toys.generator(TEXTS))


def reported(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> Any:
    assert run(["probe", *args, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_the_same_seed_gives_the_same_report(directory: str, capsys: pytest.CaptureFixture[str]) -> None:
    one, again, other = (reported(capsys, "bias", directory, "--limit", "3", "--seed", s) for s in "112")
    assert one == again
    assert one["findings"] != other["findings"]
    assert (one["probe"], one["seed"], one["complete"]) == ("bias", 1, True)
    assert [each["name"] for each in one["findings"]] == ["pairs", "pronouns", "salaries"]
    assert one["findings"][0]["done"] == 3
    assert len(one["model"]["weights_sha256"]) == 64
    assert all(each["says"] and each["says_not"] for each in one["findings"])


def test_a_person_reads_the_model_the_seed_and_what_it_does_not_say(
    directory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    assert run(["probe", "limits", directory, "--limit", "2", "--max-new", "2", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert f"limits of {directory} (gpt2, " in shown
    assert "seed 0" in shown
    assert "it does not say: how clever" in shown
    assert json.loads(out.read_text())["findings"][0]["of"] == 2


def test_ctrl_c_keeps_what_is_done(
    directory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compared, calls = pairs.Pairs._compared, []

    def impatient(self: Any, some: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return compared(self, some)

    monkeypatch.setattr(pairs.Pairs, "_compared", impatient)
    found = reported(capsys, "bias", directory, code=130)
    assert not found["complete"]
    assert [(each["done"], each["of"]) for each in found["findings"]] == [(pairs.AT_ONCE, 62)]


def test_mistakes_are_told(directory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"more": "a", "less": "b"}\n{"more": "a", "les": "b"}\n')
    assert run(["probe", "bias", directory, "--data", str(bad)]) == 3
    assert "line 2: unknown key 'les'" in capsys.readouterr().err
    assert run(["probe", "injection", directory, "--data", str(tmp_path / "none.jsonl")]) == 3
    assert "is not a file" in capsys.readouterr().err
    assert run(["probe", "bais", directory]) == 2
    assert "did you mean 'bias'?" in capsys.readouterr().err
    embedder = toys.save(tmp_path / "encoder", toys.filler(TEXTS))
    assert run(["probe", "limits", embedder]) == 3
    assert "no probe of limits for a model that is made to fill" in capsys.readouterr().err


def test_the_detectors_recipe_finds_its_rows_in_the_package(minilm_dir: Path) -> None:
    config = with_absolute_paths(read_run(find_recipe("injection-detector")))
    assert config.model["init"] == str(minilm_dir)
    assert config.data.train == (str(SHIPPED / "injection-train.jsonl"),)


def test_rows_too_long_for_the_model_are_left_out_and_counted(tmp_path: Path, capsys: Any) -> None:
    model = toys.save(tmp_path / "model", toys.generator(TEXTS))  # reads 96 tokens
    rows = [{"more": "He is a nurse.", "less": "She is a nurse."}, {"more": "he " * 99, "less": "she " * 99}]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = reported(capsys, "bias", model, "--data", str(tmp_path / "pairs.jsonl"))["findings"][0]
    assert (found["source"], found["done"], found["of"]) == ("pairs.jsonl (1 too long, left out)", 1, 1)
    (tmp_path / "pairs.jsonl").write_text(json.dumps(rows[1]))
    assert run(["probe", "bias", model, "--data", str(tmp_path / "pairs.jsonl")]) == 3
    assert "every row is too long" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_printed(directory: str, tmp_path: Path, capsys: Any) -> None:
    assert run(["probe", "bias", directory, "--limit", "2", "--out", str(tmp_path)]) == 3
    assert "pairs: pairs.jsonl, 2 rows" in capsys.readouterr().out
