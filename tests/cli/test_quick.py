"""A run from a table: what is usual, and what a small one needs."""

from pathlib import Path

import pytest

from regard.cli.quick import FEW_ROWS, MOST_ROUNDS, for_few_rows, quick_run
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
