"""Who is near whom and who was drawn: the published distributions, and nothing that depends on the batch."""

import numpy as np
import pytest

from regard.data.company import Company, KnownWords
from regard.data.noise import POWER, counts_of
from regard.data.shards import Shards, prepare
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig, train

WORDS = [f"w{letter}" for letter in "abcdefgh"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shards, Tokenizer]:
    """Word n stands about 2^-n of the time; every tenth text has a word that is too rare to be known."""
    folder, chance = tmp_path_factory.mktemp("company"), np.random.default_rng(0)
    share = 0.5 ** np.arange(1, 9)
    rows = [" ".join(chance.choice(WORDS, chance.integers(2, 30), p=share / share.sum())) for _ in range(2_000)]
    rows = [f"{row} zz{'abcdefghij'[n // 200]}{'x' * (n % 50)}" if n % 10 == 0 else row for n, row in enumerate(rows)]
    (folder / "a.txt").write_text("\n".join(rows) + "\n")
    config = TokenizerConfig(kind="bare-word", min_frequency=20, vocab_size=1_000)
    tokenizer = train(rows, config, purpose="words")
    return prepare(folder / "a.txt", KnownWords(tokenizer, 20), folder / "shards"), tokenizer


def company_of(corpus: tuple[Shards, Tokenizer], **settings: object) -> Company:
    shards, tokenizer = corpus
    usual = {"window": 4, "negatives": 5, "drawn": 12, "subsample": 0.02, "by_pairs": True, "pad_id": 0}
    return Company(counts_of(shards, tokenizer.vocab_size), **(usual | settings))  # type: ignore[arg-type]


def test_unknown_words_are_passed_over_and_long_texts_cut(corpus: tuple[Shards, Tokenizer]) -> None:
    shards, tokenizer = corpus
    assert tokenizer.vocab_size == 4 + len(WORDS)
    assert shards.lengths.max() == 20
    assert shards.lengths.min() == 2  # one word alone has no company
    assert counts_of(shards, tokenizer.vocab_size)[:4].sum() == 0


def test_frequent_words_are_left_out_as_often_as_published(corpus: tuple[Shards, Tokenizer]) -> None:
    shards, _ = corpus
    company = company_of(corpus)
    rows = np.arange(len(shards))
    left = sum(
        np.bincount(ids[ids > 0], minlength=len(company.counts))
        for step in range(5)
        for ids in [company(shards, rows, key=(1, step)).ids.numpy()]
    )
    share = company.counts[4:] / company.counts.sum()
    expected = np.minimum(1, np.sqrt(0.02 / share) + 0.02 / share)
    assert expected[0] < 0.3
    n = 5 * company.counts[4:]
    assert (np.abs(left[4:] / n - expected) <= 4 * np.sqrt(expected * (1 - expected) / n) + 1e-12).all()
    assert (company_of(corpus, subsample=0.0).kept == 1).all()


def test_negatives_are_drawn_by_frequency_to_the_power_of_three_quarters(corpus: tuple[Shards, Tokenizer]) -> None:
    shards, _ = corpus
    company = company_of(corpus)
    drawn = np.concatenate([company(shards, np.arange(2), key=(3, step)).negatives.numpy() for step in range(2_000)])
    counts = np.bincount(drawn, minlength=len(company.counts))
    expected = company.counts**POWER / (company.counts**POWER).sum() * drawn.size
    assert counts[:4].sum() == 0
    chi = ((counts[4:] - expected[4:]) ** 2 / expected[4:]).sum()
    assert chi < 24.3  # 7 degrees of freedom: one in a thousand is larger


def test_each_distance_up_to_the_window_is_drawn_equally_often(corpus: tuple[Shards, Tokenizer]) -> None:
    shards, _ = corpus
    near = company_of(corpus, subsample=0.0)(shards, np.arange(len(shards)), key=(5,)).near.numpy()
    assert not near.diagonal(axis1=1, axis2=2).any()
    middle = near[:, 6][(shards.lengths[:, 0] > 12)]  # words with room on both sides
    reach = middle[:, 7:].sum(-1)
    assert (reach == middle[:, :6].sum(-1)).all()
    counts = np.bincount(reach, minlength=5)
    n = counts.sum()
    assert counts[0] == 0
    assert (np.abs(counts[1:] - n / 4) < 4 * np.sqrt(n * 3 / 16)).all()


@pytest.mark.parametrize("by_pairs", [True, False])
def test_a_row_has_the_same_company_whatever_rows_are_beside_it(
    corpus: tuple[Shards, Tokenizer], by_pairs: bool
) -> None:
    shards, _ = corpus
    company, rows = company_of(corpus, by_pairs=by_pairs), np.array([7, 100, 3, 55])
    together = company(shards, rows, key=(2, 9))
    assert together.n_targets == sum(company(shards, rows[i : i + 1], key=(2, 9)).n_targets for i in range(4))
    for i in range(4):
        alone = company(shards, rows[i : i + 1], key=(2, 9))
        width = alone.ids.shape[1]
        assert (together.ids[i, :width] == alone.ids[0]).all()
        assert (together.near[i, :width, :width] == alone.near[0]).all()
        assert (together.negatives == alone.negatives).all()
        assert (together.weights[i, :width] == alone.weights[0]).all()
    assert (company(shards, rows, key=(2, 10)).negatives != together.negatives).any()


def test_drawn_words_weigh_as_many_as_asked_for_each_pair_but_never_against_themselves(
    corpus: tuple[Shards, Tokenizer],
) -> None:
    shards, _ = corpus
    batch = company_of(corpus)(shards, np.arange(50), key=(4,))
    ids, near, drawn = batch.ids.numpy(), batch.near.numpy(), batch.negatives.numpy()
    for row, i in [(0, 0), (3, 1), (20, 2)]:
        others = ids[row][near[row, i]]
        expected = [(others != word).sum() * 5 / 12 for word in drawn]
        np.testing.assert_allclose(batch.weights[row, i].numpy(), expected, rtol=1e-6)


def test_a_step_in_which_all_words_were_left_out_has_no_targets(corpus: tuple[Shards, Tokenizer]) -> None:
    shards, _ = corpus
    batch = company_of(corpus, subsample=1e-12)(shards, np.arange(3), key=(1,))
    assert batch.n_targets == 0
    assert not batch.near.any()
    assert not batch.weights.any()
