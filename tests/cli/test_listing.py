"""`regard list` shows what exists, as a table and as JSON."""

import json
import re

import pytest

from regard.cli.listing import find
from regard.cli.main import run
from regard.data.catalogue import read_catalogue
from regard.models.registry import FAMILIES
from regard.pretrained.bundled import BUNDLED

ORDER = {"data": list(read_catalogue().data), "models": [*BUNDLED, *read_catalogue().models]}


def test_names_that_are_listed_without_torch_are_those_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(FAMILIES)
    assert find("presets") == {preset: name for name, family in FAMILIES.items() for preset in family.presets}


def test_data_and_models_are_shown_with_size_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, name, parts in (
        ("data", "multi30k", ["1.3 MB", "none stated"]),
        ("data", "tatoeba-pt-en", ["size unknown", "CC-BY 2.0 FR"]),
        ("models", "gpt2", ["550 MB", "MIT"]),
    ):
        assert run(["list", kind]) == 0
        row = " ".join(re.split(r"\n(?=\S)", capsys.readouterr().out)[ORDER[kind].index(name)].split())
        assert row.startswith(f"{name} ")
        assert [part for part in parts if part not in row] == []


def test_json_says_all_that_the_catalogue_knows_and_null_where_it_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    known = read_catalogue()
    assert run(["list", "data", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert list(rows) == list(known.data)
    assert rows["multi30k"]["revision"] == known.data["multi30k"].revision
    assert [len(file["sha256"]) for file in rows["multi30k"]["files"]] == [64] * 6
    assert rows["multi30k"]["size"] == sum(file["size"] for file in rows["multi30k"]["files"])
    assert rows["tatoeba-pt-en"]["size"] is None
    assert {file["sha256"] for file in rows["tatoeba-pt-en"]["files"]} == {None}
    assert run(["list", "models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["t5-small"]["revision"] is None
    assert rows["gpt2"]["home"] == "https://huggingface.co/openai-community/gpt2"


def test_recipes_are_still_one_text_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "recipes", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["multi30k-de-en"].startswith("German to English")


def test_presets_are_shown_with_their_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("gpt2-xl ")).split() == [
        *("gpt2-xl", "gpt", "1.56", "B"),
        *("48", "layers", "d_model", "1600"),
    ]
    assert run(["list", "presets", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["bert-base"]
    assert row == {"family": "bert", "parameters": 110_106_428, "layers": 12, "d_model": 768}


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for kind in ("families", "recipes", "data", "models"):
        assert run(["list", kind]) == 0
        out, err = capsys.readouterr()
        assert max(map(len, out.splitlines())) <= columns
        assert ("presets | recipes" in err) == (kind == "families")
