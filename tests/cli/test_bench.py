"""`regard bench` prints a card, keeps it, and compares it with an earlier one."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli.main import run
from tasks import generators

SMALL = ["--length", "6", "--new", "3", "--rounds", "2", "--threads", "1"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(generators.save(tmp_path / "model", generators.model()))


def keys(value: Any) -> Any:
    return {key: keys(each) for key, each in value.items()} if isinstance(value, dict) else None


def test_json_has_the_documented_keys_and_is_the_file_that_out_writes(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cards" / "one.json"
    assert run(["bench", model, *SMALL, "--json", "--out", str(file)]) == 0
    card = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert card == json.loads(file.read_text())
    spread = dict.fromkeys(("median", "low", "high"))
    speed = {"tokens": None, "seconds": None, "tokens_per_second": spread}
    settings = dict.fromkeys(("task", "precision", "threads", "batch", "length", "new", "rounds"))
    assert keys(card) == {
        **dict.fromkeys(("card", "model", "layout", "parameters", "date")),
        **dict.fromkeys(("peak_bytes", "above_import_bytes", "joules_per_token", "energy")),
        "settings": settings,
        "read": speed,
        "write": speed,
        "first_token_seconds": spread,
        "computer": dict.fromkeys(("cpu", "instructions", "cores", "memory_bytes", "kernels")),
        "versions": dict.fromkeys(("regard", "torch", "python")),
    }
    assert card["card"] == 1
    assert card["settings"] == {
        "task": "generate",
        "precision": "fp32",
        "threads": 1,
        "batch": 1,
        "length": 6,
        "new": 3,
        "rounds": 2,
    }


def test_the_card_for_people_says_the_same(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", model, *SMALL, "--precision", "int8"]) == 0
    out, err = capsys.readouterr()
    first, _, *rows = out.splitlines()
    assert first.startswith(f"{model}: generate, layout llama, ")
    assert rows[0].split(maxsplit=1) == ["settings", "int8, threads 1, batch 1, 6 tokens read and 3 written"]
    labels = [row[2:14].strip() for row in rows]
    assert labels == [
        "settings",
        "",
        "reading",
        "writing",
        "first token",
        "memory",
        "energy",
        "machine",
        "kernels",
        "versions",
    ]
    assert "error" not in err


def test_like_cards_are_compared(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = str(tmp_path / "card.json")
    assert run(["bench", model, *SMALL, "--out", card]) == 0
    capsys.readouterr()
    assert run(["bench", model, *SMALL, "--against", card]) == 0
    *_, named, ratios = capsys.readouterr().out.splitlines()
    assert named.split()[0] == "against"
    assert [word for word in ratios.split() if word.isalpha()] == ["read", "write", "first", "token", "memory"]
    assert run(["bench", model, *SMALL, "--json", "--against", card]) == 0
    assert set(json.loads(capsys.readouterr().out)["against"]) == {"read", "write", "first_token", "memory"}


def test_unlike_cards_are_refused_before_the_measuring(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card, later = tmp_path / "card.json", tmp_path / "later.json"
    assert run(["bench", model, *SMALL, "--out", str(card)]) == 0
    capsys.readouterr()
    assert run(["bench", model, *SMALL, "--batch", "2", "--out", str(later), "--against", str(card)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "batch was 1 and is 2" in err
    assert not later.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["no-such-model"], 3, "no model at"),
        (["MODEL", "--against", "no-such-card.json"], 3, "no-such-card.json is no card"),
        (["MODEL", "--length", "600"], 3, "do not fit"),
        (["MODEL", "--new", "1"], 2, "--new"),
        (["MODEL", "--precision", "in8"], 2, "did you mean 'int8'?"),
        ([], 2, "MODEL"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], code: int, told: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", *(model if each == "MODEL" else each for each in arguments)]) == code
    assert told in capsys.readouterr().err
