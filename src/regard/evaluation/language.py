"""How well a language model foresees text: perplexity, and bits or nats per character.

Both start from the negative log likelihood in nats, summed over a text. Perplexity is per token and compares only
models of one vocabulary; bits per character compare all.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from regard.config import require
from regard.evaluation.score import Rows, Score, scored

Totals = float | Sequence[float]
"Of each text; one number is the total of all, which has a score but no interval."


def perplexity(losses: Totals, tokens: Totals, *, bootstrap: int = 0) -> Score:
    """`tokens` are those whose likelihood was summed. Infinite where it is too large to write."""
    return _per_unit("perplexity", "tokens", _exp, losses, tokens, bootstrap)


def bits_per_character(losses: Totals, characters: Totals, *, bootstrap: int = 0) -> Score:
    """`characters` are Unicode code points of the text itself: `len(text)`, before any tokenizer."""
    return _per_unit("bits-per-character", "characters", _bits, losses, characters, bootstrap)


def nats_per_character(losses: Totals, characters: Totals, *, bootstrap: int = 0) -> Score:
    """The same as `bits_per_character`, in the unit that a training loss has."""
    return _per_unit("nats-per-character", "characters", float, losses, characters, bootstrap)


def _per_unit(
    name: str, unit: str, of: Callable[[float], float], losses: Totals, counts: Totals, bootstrap: int
) -> Score:
    nats, n = (np.atleast_1d(np.array(side, dtype=np.float64)) for side in (losses, counts))
    require(len(nats) == len(n), f"{len(nats)} sums of loss for {len(n)} texts with {unit}", "expected one for each")
    require(bool((nats >= 0).all()), "a loss is negative or not a number", "expected sums of -log p, in nats")
    require(n.size > 0 and bool((n > 0).all()), f"there is a text without {unit}, or none at all", "leave it out")

    def metric(rows: Rows) -> float:
        with np.errstate(over="ignore"):  # a sum past the largest number is infinite
            return of(float(nats[rows].sum() / n[rows].sum()))

    return scored([name], metric, len(n), signature=f"per:{unit}", bootstrap=bootstrap, scale=1.0, lowest=None)[0]


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def _bits(nats: float) -> float:
    return nats / math.log(2)
