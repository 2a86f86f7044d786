"""Perplexity and bits per character are what their definitions say, at both ends of the scale too."""

import math

import pytest

from faults.refusal import refused
from regard.evaluation.language import bits_per_character, perplexity


def test_a_model_that_guesses_evenly_has_the_perplexity_of_its_choices() -> None:
    assert perplexity(30 * math.log(50), 30).value == pytest.approx(50)
    assert bits_per_character(30 * math.log(256), 30).value == pytest.approx(8)


def test_texts_weigh_by_their_length() -> None:
    losses, tokens = [10 * math.log(2), 30 * math.log(4)], [10, 30]
    assert perplexity(losses, tokens).value == pytest.approx(2 ** (70 / 40))
    assert perplexity(losses, tokens).value == pytest.approx(perplexity(sum(losses), sum(tokens)).value)


def test_a_sure_model_is_at_the_bottom() -> None:
    assert perplexity(0.0, 5).value == 1.0
    assert bits_per_character(0.0, 5).value == 0.0


def test_what_is_too_large_to_write_is_infinite() -> None:
    assert perplexity(709.0, 1).value < math.inf
    assert perplexity(710.0, 1).value == math.inf
    assert perplexity(math.inf, 1).value == bits_per_character(math.inf, 1).value == math.inf
    assert perplexity([1.7e308, 1.7e308], [1, 1]).value == math.inf
    score = perplexity([800.0, 900.0, 1.0], [1, 1, 1], bootstrap=100)
    assert (score.value, score.high) == (math.exp(1701 / 3), math.inf)
    assert str(perplexity(710.0, 1)) == "perplexity inf"


def test_several_texts_give_an_interval_and_a_total_gives_none() -> None:
    score = bits_per_character([5.0, 9.0, 7.0, 8.0] * 10, [4, 5, 6, 7] * 10, bootstrap=200)
    assert score.low is not None
    assert score.low < score.value < score.high
    assert bits_per_character(29.0, 22, bootstrap=200).low is None


def test_what_cannot_be_scored_is_refused() -> None:
    for losses, counts in ((1.0, 0), ([1.0, 1.0], [3, 0]), ([], []), (1.0, math.nan)):
        with refused("tokens"):
            perplexity(losses, counts)
        with refused("characters"):
            bits_per_character(losses, counts)
    with refused("2 sums of loss for 1"):
        perplexity([1.0, 2.0], [3])
    for loss in (-1.0, math.nan):
        with refused("negative or not a number"):
            perplexity(loss, 3)
