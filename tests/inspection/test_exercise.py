"""The exercise can be solved by hand, and its solution is what a head would compute."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard.inspection.exercise import HEADER, exercise


@pytest.mark.parametrize("seed", range(5))
def test_the_solution_is_arithmetic_that_can_be_done_by_hand(seed: int) -> None:
    found = exercise(solved=True, seed=seed)
    out, weights = found.answer()
    for i in range(3):
        q = [sum(float(found.x[i, k] * found.w_q[k, j]) for k in range(3)) for j in range(3)]
        scores, values = [], []
        for t in range(3):
            k = [sum(float(found.x[t, a] * found.w_k[a, j]) for a in range(3)) for j in range(3)]
            values.append([sum(float(found.x[t, a] * found.w_v[a, j]) for a in range(3)) for j in range(3)])
            scores.append(math.exp(sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(3)))
        shares = torch.tensor(scores) / sum(scores)
        assert_close(weights[i], shares, rtol=0, atol=1e-5)
        assert_close(out[i], shares @ torch.tensor(values), rtol=0, atol=1e-4)


def test_all_that_is_given_is_whole_and_small() -> None:
    found = exercise(solved=False)
    for matrix in (found.x, found.w_q, found.w_k, found.w_v):
        assert matrix.shape == (3, 3)
        assert torch.equal(matrix, matrix.round())
        assert matrix.abs().max() <= 2


def test_without_the_solution_only_the_words_are_in_the_tables() -> None:
    bare, full = (exercise(solved=solved) for solved in (False, True))
    assert all(cell == "" for row in bare.sheet(0) for cell in row[1:])
    assert bare.markdown().count("| Action |  |  |") == 3
    assert bare.markdown().partition("## Query")[0] == full.markdown().partition("## Query")[0]
    assert "weights" not in bare.to_dict()
    assert "weights" in full.to_dict()
    assert "softmax" in bare.svg()


def test_the_sheet_has_the_columns_of_the_lecture_with_the_right_divisor() -> None:
    assert HEADER == ("Word", "q", "k", "v", "score", "score / √3", "softmax", "softmax · v", "sum")
    row = exercise(solved=True).sheet(1)[1]
    score, scaled = float(row[4]), float(row[5])
    assert scaled == pytest.approx(score / math.sqrt(3), abs=1e-3)


def test_another_seed_has_other_numbers() -> None:
    assert exercise(solved=True, seed=1).markdown() != exercise(solved=True, seed=2).markdown()
    assert exercise(solved=True, seed=1).markdown() == exercise(solved=True, seed=1).markdown()
