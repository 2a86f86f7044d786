"""Greedy search: the likeliest token at every step. `write` is the loop that it shares with sampling."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from regard.errors import FAILURE, UserError
from regard.layers.state import DecodingState

S = TypeVar("S", bound=DecodingState)
Step = Callable[[Tensor, S, Tensor | None], Tensor]
"Appends ids (B, T) to the state, of which only the valid (B, T) count; returns scores (B, V) of the next token."
Choose = Callable[[Tensor, int], Tensor]
"Scores (B, V) of the token number t to that token (B)."
Prefix = Sequence[Sequence[int]]
"For each row the tokens that its text must begin with; nothing at all, or an empty one, forces nothing."

DONE = -1
"Stands where a row has already ended."
FREE = -1
"Stands where no token is forced."


def greedy(
    step: Step[S],
    state: S,
    prompt: Tensor,
    *,
    limit: int,
    end_ids: Collection[int] = (),
    valid: Tensor | None = None,
    prefix: Prefix = (),
) -> Iterator[Tensor]:
    """Yields the next ids (B) until every row has ended or `limit` tokens are written; the end itself is yielded."""
    return write(likeliest, step, state, prompt, limit=limit, end_ids=end_ids, valid=valid, prefix=prefix)


def likeliest(scores: Tensor, _: int) -> Tensor:
    best, token = scores.max(-1)  # (B)
    refuse_nan(best)
    return token


def write(
    choose: Choose,
    step: Step[S],
    state: S,
    prompt: Tensor,
    *,
    limit: int,
    end_ids: Collection[int] = (),
    valid: Tensor | None = None,
    prefix: Prefix = (),
) -> Iterator[Tensor]:
    ends = torch.tensor(sorted(end_ids), dtype=torch.long, device=prompt.device)
    forced = forced_ids(prefix, len(prompt), prompt.device)  # (B, P)
    finished = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    ids, mask = prompt, valid
    for t in range(limit):
        scores = step(ids, state, mask)  # (B, V)
        token = choose(scores, t)
        if t < forced.size(1):
            refuse_unknown(forced, scores.size(-1))
            token = torch.where(forced[:, t] == FREE, token, forced[:, t])
        yield token.masked_fill(finished, DONE)
        finished = finished | torch.isin(token, ends)
        if finished.all():
            return
        ids, mask = token[:, None], None


def forced_ids(prefix: Prefix, n_rows: int, device: torch.device) -> Tensor:
    """(B, P) with FREE behind the end of each row's own prefix."""
    assert not prefix or len(prefix) == n_rows, "one prefix for each row"
    longest = max(map(len, prefix), default=0)
    rows = [[*row, *[FREE] * (longest - len(row))] for row in prefix or [()] * n_rows]
    return torch.tensor(rows, dtype=torch.long, device=device).view(n_rows, longest)


def refuse_nan(best: Tensor) -> None:
    """Of the largest scores: max, argmax and topk all call NaN the largest, so one of many shows here."""
    if best.isnan().any():
        raise UserError("the model's scores are not numbers", "its weights are damaged", exit_code=FAILURE)


def refuse_unknown(forced: Tensor, vocab_size: int) -> None:
    if forced.numel() and int(forced.max()) >= vocab_size:
        raise UserError(f"the forced token {int(forced.max())} does not exist", f"ids run from 0 to {vocab_size - 1}")
