"""The best way through a table of scores, where not every step is allowed (Viterbi 1967)."""

import numpy as np
from numpy.typing import NDArray


def best_path(scores: NDArray[np.floating], steps: NDArray[np.bool_]) -> list[int]:
    """One column for each row of `scores` (T, n), so that their sum is largest; of equals the lower.

    `steps` (n + 1, n) says which column may follow which, and in its last row, which may be the first.
    """
    if not len(scores):
        return []
    closed = np.where(steps, 0.0, -np.inf)  # (n + 1, n)
    total = scores[0] + closed[-1]
    came_from = np.zeros(scores.shape, dtype=np.intp)
    for row in range(1, len(scores)):
        ways = total[:, None] + closed[:-1]  # (n, n)
        came_from[row] = ways.argmax(axis=0)
        total = ways.max(axis=0) + scores[row]
    path = [int(total.argmax())]
    for row in range(len(scores) - 1, 0, -1):
        path.append(int(came_from[row, path[-1]]))
    return path[::-1]
