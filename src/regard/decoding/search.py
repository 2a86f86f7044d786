"""Greedy search: the likeliest token at every step."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from regard.errors import FAILURE, UserError
from regard.layers.state import DecodingState

S = TypeVar("S", bound=DecodingState)
Step = Callable[[Tensor, S, Tensor | None], Tensor]
"Appends ids (B, T) to the state, of which only the valid (B, T) count; returns scores (B, V) of the next token."

DONE = -1
"Stands where a row has already ended."


def greedy(
    step: Step[S], state: S, prompt: Tensor, *, limit: int, end_ids: Collection[int] = (), valid: Tensor | None = None
) -> Iterator[Tensor]:
    """Yields the next ids (B) until every row has ended or `limit` tokens are written; the end itself is yielded."""
    ends = torch.tensor(sorted(end_ids), dtype=torch.long, device=prompt.device)
    finished = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    ids, mask = prompt, valid
    for _ in range(limit):
        scores = step(ids, state, mask)  # (B, V)
        if scores.isnan().any():  # argmax would call NaN the best
            raise UserError("the model's scores are not numbers", "its weights are damaged", exit_code=FAILURE)
        token = scores.argmax(-1)  # (B)
        yield token.masked_fill(finished, DONE)
        finished = finished | torch.isin(token, ends)
        if finished.all():
            return
        ids, mask = token[:, None], None
