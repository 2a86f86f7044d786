"""The order of training: pure, resumable from anywhere, every row once an epoch, within the budget, hardly padded."""

import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors, trainers

from data.words import prepared
from faults.refusal import refused
from regard.data.batches import Position, Steps, split
from regard.text.tokenizer import Tokenizer

Step = tuple[np.ndarray, Position]


def random_lengths(n: int, *, columns: int = 2, longest: int = 40, seed: int = 0) -> np.ndarray:
    """Lengths of sentences and of their translations, which are alike."""
    chance = np.random.default_rng(seed)
    first = chance.integers(1, longest, n)
    return np.stack([np.maximum(1, first + chance.integers(-3, 4, n)) for _ in range(columns)], axis=1).astype(np.int32)


def taken(steps: Steps, position: Position, count: int) -> list[Step]:
    return list(itertools.islice(steps.steps(position), count))


def epoch_of(steps: Steps, epoch: int) -> list[Step]:
    return taken(steps, Position(epoch), steps.steps_in_epoch(epoch))


def same(ours: list[Step], theirs: list[Step]) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return all(np.array_equal(one[0], other[0]) and one[1] == other[1] for one, other in pairs)


CASES = st.builds(
    lambda n, columns, longest, budget, seed, window: Steps(
        random_lengths(n, columns=columns, longest=longest, seed=seed), budget=budget, seed=seed, window=window
    ),
    n=st.integers(1, 150),
    columns=st.integers(1, 3),
    longest=st.integers(2, 60),
    budget=st.integers(20, 600),
    seed=st.integers(0, 2**32),
    window=st.integers(20, 200),
)


@given(CASES, st.integers(0, 5))
def test_every_row_comes_once_an_epoch(steps: Steps, epoch: int) -> None:
    rows = np.concatenate([rows for rows, _ in epoch_of(steps, epoch)])
    assert np.array_equal(np.sort(rows), np.arange(len(steps.lengths)))


@given(CASES)
def test_no_step_is_larger_than_the_budget_unless_it_is_one_row(steps: Steps) -> None:
    for rows, _ in epoch_of(steps, 0):
        padded = len(rows) * steps.lengths[rows].max(axis=0).sum()
        assert padded <= steps.budget or len(rows) == 1


@given(CASES, st.data())
def test_resumed_anywhere_it_goes_on_as_if_it_had_never_stopped(steps: Steps, data: st.DataObject) -> None:
    whole = taken(steps, Position(), steps.steps_in_epoch(0) + steps.steps_in_epoch(1) + 1)
    stop = data.draw(st.integers(1, len(whole) - 1))
    fresh = Steps(steps.lengths, budget=steps.budget, seed=steps.seed, window=steps.window)
    assert same(taken(fresh, whole[stop - 1][1], len(whole) - stop), whole[stop:])


@given(CASES)
def test_positions_count_up_and_the_last_of_an_epoch_is_the_first_of_the_next(steps: Steps) -> None:
    n = steps.steps_in_epoch(3)
    after = [position for _, position in taken(steps, Position(3), n + 1)]
    assert after[:-2] == [Position(3, step) for step in range(1, n)]
    assert after[-2] == Position(4, 0)
    assert same(taken(steps, Position(3, n), 3), taken(steps, Position(4, 0), 3))


def test_the_same_seed_gives_the_same_order_and_another_seed_or_epoch_another() -> None:
    lengths = random_lengths(3_000)
    steps = Steps(lengths, budget=500, seed=1, window=1_000)
    again = Steps(lengths, budget=500, seed=1, window=1_000)
    other = Steps(lengths, budget=500, seed=2, window=1_000)
    assert same(epoch_of(steps, 2), epoch_of(again, 2))
    first, second, third = ([set(rows) for rows, _ in epoch_of(*case)] for case in [(steps, 0), (steps, 1), (other, 0)])
    for one, two in ((first, second), (first, third)):
        assert sum(rows in two for rows in one) < len(one) / 20, "hardly a step has the same rows twice"


def test_short_and_long_steps_come_in_no_order() -> None:
    steps = Steps(random_lengths(20_000), budget=1_000, seed=1)
    widths = np.array([steps.lengths[rows].mean() for rows, _ in epoch_of(steps, 0)])
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 5 / np.sqrt(len(widths))
    assert abs(np.corrcoef(widths[1:], widths[:-1])[0, 1]) < 5 / np.sqrt(len(widths))


def test_what_was_counted_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(random_lengths(5_000), budget=300, seed=1, window=500)
    n = steps.steps_in_epoch(0)
    cuts: list[int] = []
    cut = steps._cut
    monkeypatch.setattr(steps, "_cut", lambda epoch, window: cuts.append(window) or cut(epoch, window))
    taken(steps, Position(0, n - 1), 1)
    assert cuts == [9], "only the window that the step is in"


def test_a_position_of_other_data_is_refused() -> None:
    steps = Steps(random_lengths(100), budget=300, seed=1)
    with refused(f"{steps.steps_in_epoch(0)} steps", "not 1,000", "budget"):
        next(steps.steps(Position(0, 1_000)))


def test_no_rows_and_no_budget_are_refused() -> None:
    with refused("no rows"):
        Steps(random_lengths(0), budget=10, seed=0)
    with refused("budget is 0"):
        Steps(random_lengths(1), budget=0, seed=0)


def test_padding_is_what_is_computed_in_vain() -> None:
    lengths = np.array([[2, 3], [2, 3], [4, 5]])
    assert Steps(lengths, budget=100, seed=0).padding(0) == pytest.approx(1 - 19 / 27)
    assert Steps(lengths, budget=10, seed=0).padding(0) == 0


@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 3), st.integers(0, 99))
def test_a_split_step_has_every_row_once(n: int, parts: int, columns: int, seed: int) -> None:
    lengths = random_lengths(200, columns=columns, seed=seed)
    rows = np.random.default_rng(seed).permutation(200)[:n]
    found = split(rows, lengths, parts)
    assert len(found) == parts
    assert sorted(np.concatenate(found)) == sorted(rows)
    assert sum(len(part) == 0 for part in found) == max(0, parts - n)


@given(st.integers(2, 8), st.integers(0, 99))
def test_parts_are_of_nearly_one_size_and_of_like_lengths(parts: int, seed: int) -> None:
    lengths = random_lengths(1_000, seed=seed)
    found = split(np.arange(1_000), lengths, parts)
    sizes = [lengths[part].sum() for part in found]
    assert max(sizes) - min(sizes) <= 2 * lengths.sum(axis=1).max()
    for before, after in itertools.pairwise(found):
        assert lengths[before, 1].max() <= 1.1 * lengths[after, 1].min() + 1


@pytest.fixture(scope="module")
def tatoeba(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """Lengths of real sentence pairs under a vocabulary of 8,000 byte pairs."""
    source = data_dir / "tatoeba_pt_en" / "train.pt-en.tsv.gz"
    core = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        trainer = trainers.BpeTrainer(vocab_size=8_000, special_tokens=["</s>", "<unk>"], show_progress=False)
        core.train_from_iterator(lines, trainer)
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    tokenizer = Tokenizer(core, special={"eos": "</s>", "unk": "<unk>"})
    folder = tmp_path_factory.mktemp("tatoeba") / "train"
    return prepared(source, [tokenizer, tokenizer], folder, max_len=128).lengths


@pytest.mark.slow
@pytest.mark.parametrize("budget", [3_000, 4_500, 6_000, 8_000])
def test_an_epoch_of_real_sentences_has_hardly_any_padding(tatoeba: np.ndarray, budget: int) -> None:
    assert Steps(tatoeba, budget=budget, seed=1).padding(0) < 0.022
