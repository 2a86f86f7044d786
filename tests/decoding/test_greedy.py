"""Greedy search over a step function: it knows no model, so the model here is a table."""

from collections.abc import Collection
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from decoding.writers import writer
from regard.decoding.sample import SampleSettings, sample
from regard.decoding.search import DONE, greedy
from regard.errors import UserError
from regard.models.gpt import Gpt, GptConfig

END = 3


class Counter:
    """A state that remembers how many tokens each row has seen."""

    def __init__(self, rows: int) -> None:
        self.lengths = torch.zeros(rows, dtype=torch.long)

    def reorder(self, index: Tensor) -> None:
        self.lengths = self.lengths[index]


def next_is_successor(ids: Tensor, state: Counter, valid: Tensor | None) -> Tensor:
    state.lengths = state.lengths + ids.size(1)
    return torch.nn.functional.one_hot((ids[:, -1] + 1).clamp(max=END), END + 1).float()


def run(start: list[int], limit: int = 10) -> list[list[int]]:
    prompt = torch.tensor(start)[:, None]
    steps = list(greedy(next_is_successor, Counter(len(start)), prompt, limit=limit, end_ids=[END]))
    return torch.stack(steps, 1).tolist()


def test_each_row_ends_by_itself_and_then_stays_silent() -> None:
    assert run([0, 1, 2]) == [[1, 2, 3], [2, 3, DONE], [3, DONE, DONE]]


def test_the_limit_is_kept() -> None:
    assert run([0], limit=2) == [[1, 2]]
    assert list(greedy(next_is_successor, Counter(1), torch.tensor([[0]]), limit=0)) == []


@pytest.mark.parametrize("scores", [[torch.nan, 1.0], [1.0, torch.inf], [-torch.inf, -torch.inf]])
def test_scores_that_are_not_numbers_are_an_error_not_a_token(scores: list[float]) -> None:
    def broken(ids: Tensor, state: Counter, valid: Tensor | None) -> Tensor:
        return torch.tensor([scores])

    with pytest.raises(UserError, match="give no number"):
        next(greedy(broken, Counter(1), torch.tensor([[0]]), limit=1))


def test_no_rows_give_no_ids() -> None:
    nobody = torch.zeros(0, 1, dtype=torch.long)
    assert [step.tolist() for step in greedy(next_is_successor, Counter(0), nobody, limit=3)] in ([], [[]])


@pytest.mark.parametrize("name", ["transformer", "bart", "t5", "lstm additive"])
@pytest.mark.parametrize("kind", ["greedy", "sampled"])
def test_rows_that_have_ended_leave_the_batch_and_nobody_notices(name: str, kind: str) -> None:
    """Against the same search without an end in sight, in which no row ever leaves, cut at the ends."""
    w, widths = writer(name, 24, seed=1), []
    prefix: list[list[int]] = [[3, 4] if row % 3 == 0 else [] for row in range(24)]

    def step(ids: Tensor, state: Any, valid: Tensor | None) -> Tensor:
        widths.append(len(ids))
        return w.model.step(ids, state, valid)

    def run(ends: Collection[int]) -> list[list[int]]:
        search = greedy if kind == "greedy" else partial(sample, settings=SampleSettings(top_k=6, seed=5))
        steps = search(step, w.state(10), w.start[:, None], limit=10, end_ids=ends, prefix=prefix)
        return torch.stack(list(steps), 1).tolist()

    with torch.no_grad():
        whole = run(())
        assert set(widths) == {24}
        widths.clear()
        ends = {whole[1][2], whole[5][4], whole[7][6]}  # the models' own are hardly ever written
        left = run(ends)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 24  # something has been saved
    lengths = [next((t for t, id in enumerate(row, start=1) if id in ends), 10) for row in whole]
    assert len(set(lengths)) > 2
    assert [row[:n] + [DONE] * (len(left[0]) - n) for row, n in zip(whole, lengths, strict=True)] == left


def test_ragged_prompts_in_one_batch_give_what_each_gives_alone() -> None:
    torch.manual_seed(0)
    config = GptConfig(vocab_size=23, d_model=16, n_heads=2, d_ff=32, n_layers=2, max_len=32, eos_ids=())
    model = Gpt(config).eval()
    prompts = [[5, 6, 7, 8], [9], [1, 2]]
    ids = torch.zeros(3, 4, dtype=torch.long)
    valid = torch.zeros(3, 4, dtype=torch.bool)
    for row, prompt in enumerate(prompts):  # the second row is padded on the left
        place = slice(4 - len(prompt), 4) if row == 1 else slice(0, len(prompt))
        ids[row, place] = torch.tensor(prompt)
        valid[row, place] = True
    with torch.no_grad():
        together = torch.stack(list(greedy(model.step, model.new_state(3, 12), ids, limit=8, valid=valid)), 1)
        for row, prompt in enumerate(prompts):
            alone = list(greedy(model.step, model.new_state(1, 12), torch.tensor([prompt]), limit=8))
            assert torch.equal(together[row], torch.cat(alone))
