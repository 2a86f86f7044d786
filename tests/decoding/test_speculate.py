"""Speculation writes what greedy search writes, token for token, in no more passes of the model."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from decoding import writers
from models import tiny
from regard.decoding.search import greedy
from regard.decoding.speculate import LONGEST, NGRAM, Passage, speculate
from regard.errors import UserError

VOCAB, MAX_LEN = 11, 60
LANGUAGE_MODELS = ["gpt2", "llama", "gpt2 local", "llama one key head"]
NAMES = [*LANGUAGE_MODELS, "bart", "t5"]

names = pytest.mark.parametrize("name", NAMES)
prompts = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=12)


@cache
def model_of(name: str) -> Any:
    if name in LANGUAGE_MODELS:
        return tiny.make(name, vocab_size=VOCAB, max_len=MAX_LEN)
    return writers.make(name)


class Written:
    """Both texts of one prompt, and the passes that each took."""

    def __init__(self, name: str, prompt: list[int], limit: int, end_ids: tuple[int, ...] = ()) -> None:
        self.model, self.prompt = model_of(name), torch.tensor([prompt])
        self.name, self.passes, common = name, 0, {"limit": limit, "end_ids": end_ids}
        with torch.no_grad():
            self.greedy = [int(id) for id in greedy(self.model.step, self.state(limit), self.prompt, **common)]  # type: ignore[arg-type]
            self.ours = [int(id) for id in speculate(self.steps, self.state(limit), self.prompt, **common)]  # type: ignore[arg-type]

    def state(self, limit: int) -> Any:
        """With room for what greedy search needs, and no more."""
        room = self.prompt.size(1) + limit - 1
        if self.name in LANGUAGE_MODELS:
            return self.model.new_state(1, room)
        return self.model.new_state(self.model.encode(torch.tensor([[5, 7, 3]])), None, room)

    def steps(self, ids: Tensor, state: Any, n_last: int) -> Tensor:
        self.passes += 1
        return self.model.steps(ids, state, n_last)


@names
@settings(max_examples=12, deadline=None)
@given(prompts, st.integers(1, 48), st.sets(st.integers(0, VOCAB - 1), max_size=2))
def test_the_text_is_that_of_greedy_search(name: str, prompt: list[int], limit: int, ends: set[int]) -> None:
    found = Written(name, prompt, limit, tuple(ends))
    assert found.ours == found.greedy
    assert found.passes <= len(found.ours)


@names
def test_a_text_that_repeats_itself_takes_fewer_passes(name: str) -> None:
    found = Written(name, [3, 4, 5], 48)
    assert found.ours == found.greedy
    assert found.passes < len(found.ours)


@names
@pytest.mark.parametrize("limit", [1, 2, *range(20, 30)])
def test_any_limit_ends_the_text_in_the_midst_of_a_guess(name: str, limit: int) -> None:
    found = Written(name, [3, 4, 5, 3, 4, 5, 3, 4, 5], limit)
    assert found.ours == found.greedy


@names
def test_any_token_may_be_the_end(name: str) -> None:
    for end in set(Written(name, [3, 4, 5], 40).greedy):
        found = Written(name, [3, 4, 5], 40, (end,))
        assert found.ours == found.greedy
        assert found.ours[-1] == end
        assert end not in found.ours[:-1]


@names
def test_the_last_tokens_of_a_pass_have_the_scores_of_single_steps(name: str) -> None:
    found, ids = Written(name, [3, 4], 8), torch.tensor([[3, 4, 5, 6, 7]])
    with torch.no_grad():
        one_by_one, at_once = found.state(8), found.state(8)
        theirs = torch.stack([found.model.step(id, one_by_one) for id in ids.split(1, dim=1)], dim=1)
        ours = found.model.steps(ids, at_once, 3)
    torch.testing.assert_close(ours, theirs[:, -3:], rtol=0.0, atol=1e-5)


def test_broken_weights_are_told() -> None:
    def steps(ids: Tensor, state: Any, n_last: int) -> Tensor:
        return torch.full((1, n_last, VOCAB), torch.nan)

    with pytest.raises(UserError, match="NaN"):
        next(speculate(steps, model_of("llama").new_state(1, 9), torch.tensor([[1, 2]]), limit=3))


QUESTION = (
    "Repeat this text word for word: The lighthouse had been dark for eleven years when Maud came home. She climbed "
    "the ninety-two steps with a lantern and a cloth, and by midnight the old lens was turning again."
)


@pytest.mark.slow
def test_a_real_model_quotes_in_half_the_passes(smollm2_file: Path) -> None:
    generator, passes = regard.load(smollm2_file), [0]
    ids, limit = torch.tensor([generator.encode(QUESTION)]), 40

    def steps(ids: Tensor, state: Any, n_last: int) -> Tensor:
        passes[0] += 1
        return generator.model.steps(ids, state, n_last)

    states = [generator.model.new_state(1, ids.size(1) + limit - 1) for _ in range(2)]
    theirs = [int(id) for id in greedy(generator.model.step, states[0], ids, limit=limit)]
    ours = [int(id) for id in speculate(steps, states[1], ids, limit=limit)]
    assert ours == theirs
    assert passes[0] <= limit // 2


# --- the passage that is followed -----------------------------------------------------------------------------------


def test_nothing_is_proposed_where_nothing_is_repeated() -> None:
    passage = Passage([])
    for id in range(100):
        passage.append(id)
        assert passage.propose(LONGEST) == []


def test_what_followed_the_last_tokens_is_proposed_and_no_more_than_asked_for() -> None:
    passage = Passage(list(range(50)))
    for n, id in enumerate(range(10, 30), start=1):
        passage.append(id)
        assert passage.propose(LONGEST) == ([] if n < NGRAM else list(range(id + 1, id + 1 + LONGEST)))
    assert passage.propose(3) == [30, 31, 32]
    assert passage.propose(0) == []
    passage.append(99)
    assert passage.propose(LONGEST) == []


def test_the_latest_of_several_passages_is_followed() -> None:
    passage = Passage([1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 6, 0, 2, 3, 4])
    assert passage.propose(2) == [6, 0]


def test_guesses_that_fail_make_wary_and_good_ones_bold() -> None:
    def foretold_before_a_guess() -> int:
        trial = Passage(list(range(50)))
        trial._doubt = passage._doubt
        for id in range(10, 40):
            trial.append(id)
            if trial.propose(1):
                return id - 9 - NGRAM
        raise AssertionError("it never dares again")

    passage, wary = Passage([]), []
    for agreed in (0, 1, 0, 0, 0, 0, LONGEST, 2, 2, 2, 2):
        passage.learn(agreed)
        wary.append(foretold_before_a_guess())
    assert wary == [1, 2, 4, 8, 16, 16, 8, 4, 2, 1, 0]
