"""Captions of which one alone is right: the share that is word for word the same."""

from collections.abc import Sequence

import numpy as np

from regard.evaluation.score import Score, check_paired, scored


def exact(said: Sequence[str], right: Sequence[str], *, name: str = "exact-match", bootstrap: int = 0) -> Score:
    """Spaces at the ends and between words do not count; letters do."""
    check_paired(len(said), len(right), "captions")
    same = np.array([one.split() == other.split() for one, other in zip(said, right, strict=True)], dtype=np.float64)
    return scored([name], lambda rows: same[rows].mean(), len(same), signature="words:same", bootstrap=bootstrap)[0]
