"""A run from a table: what is usual, and what a small one needs."""

import random
from pathlib import Path

import pytest

from regard.cli.quick import FEW_ROWS, MOST_ROUNDS, for_few_rows, quick_run, share_of
from regard.data.corpus import Part, read_rows
from regard.training.config import RunConfig
from regard.training.folder import run_of


def table(folder: Path, n_rows: int, *assignments: str, init: str | None = "minilm") -> RunConfig:
    path = folder / "a.csv"
    path.write_text("text,label\n" + "".join(f"text {i},{'yes' if i % 2 else 'no'}\n" for i in range(n_rows)))
    assignments = ("data.hold_out=0", *assignments)
    return for_few_rows(run_of(quick_run("classify", [path], init, ()), assignments), assignments)


def test_few_rows_are_learnt_from_more_often_and_in_smaller_steps(tmp_path: Path) -> None:
    usual = table(tmp_path, FEW_ROWS).train
    small, smaller = (table(tmp_path, n_rows).train for n_rows in (200, 10))
    assert (usual.epochs, usual.batch_tokens) == (3, 1500)
    assert (small.epochs, smaller.epochs) == (5, MOST_ROUNDS)
    assert small.batch_tokens == smaller.batch_tokens == 200


@pytest.mark.parametrize(("said", "epochs", "tokens"), [
    ("train.epochs=2", 2, 1500), ("train.steps=7", 0, 1500), ("train.batch_tokens=64", MOST_ROUNDS, 64),
])  # fmt: skip
def test_what_was_said_stays(said: str, epochs: float, tokens: int, tmp_path: Path) -> None:
    found = table(tmp_path, 10, said).train
    assert (found.epochs, found.batch_tokens) == (epochs, tokens)


@pytest.mark.parametrize(("n_rows", "usual", "held"), [
    (12, 0.1, 3), (40, 0.02, 8), (300, 0.1, 30), (300, 0.02, 30), (3_000, 0.02, 100), (3_000, 0.1, 300),
])  # fmt: skip
def test_of_few_rows_a_counted_share_is_held_out(n_rows: int, usual: float, held: int) -> None:
    chance = random.Random(n_rows)
    places = [chance.random() for _ in range(n_rows)]
    share = share_of(usual, places)
    assert sum(place < share for place in places) == held


def test_of_many_rows_and_of_three_the_usual_share_is_held_out() -> None:
    assert share_of(0.02, (i / 6_000 for i in range(6_000))) == share_of(0.02, [0.1, 0.5, 0.9]) == 0.02


def test_a_share_that_was_asked_for_stays(tmp_path: Path) -> None:
    assert table(tmp_path, 40, "data.hold_out=0.5").data.hold_out == 0.5
    path = tmp_path / "a.csv"
    config = run_of(quick_run("classify", [path], "minilm", ()), ())
    found = for_few_rows(config, ()).data.hold_out
    held = read_rows(Part((path,), 0.0, found), columns=["text", "label"])
    assert len(list(held)) == 8
