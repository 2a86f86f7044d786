"""Writing: a step function scores the next token, a choice picks one, until every row has ended.

Greedy search chooses the likeliest token; sampling draws one (sample.py). A row that has ended leaves the state,
so a batch costs what its rows still have to say and not what the longest does.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from regard.decoding.top import top
from regard.errors import UserError
from regard.layers.state import DecodingState

S = TypeVar("S", bound=DecodingState)
Step = Callable[[Tensor, S, Tensor | None], Tensor]
"Appends ids (B, T) to the state, of which only the valid (B, T) count; returns scores (B, V) of the next token."
Choose = Callable[[Tensor, Tensor, int], Tensor]
"Scores (n, V) of the token number t in these rows (n) of the batch to that token (n)."
Prefix = Sequence[Sequence[int]]
"For each row the tokens that its text must begin with; nothing at all, or an empty one, forces nothing."

DONE = -1
"Stands where a row has already ended."
FREE = -1
"Stands where no token is forced."


@torch.no_grad()
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
    """Yields the next ids (B) until every row has ended or `limit` tokens are written; the end itself is yielded.

    The state holds B rows and is used up.
    """
    ends = torch.tensor(sorted(end_ids), dtype=torch.long, device=prompt.device)
    forced = forced_ids(prefix, len(prompt), prompt.device)  # (B, P)
    rows = torch.arange(len(prompt), device=prompt.device)  # (n) those that have not ended
    ids, mask = prompt, valid
    for t in range(limit):
        scores = step(ids, state, mask)  # (n, V)
        token = choose(scores, rows, t)
        if t < forced.size(1):
            refuse_unknown(forced, scores.size(-1))
            token = torch.where(forced[rows, t] == FREE, token, forced[rows, t])
        yield torch.full_like(prompt[:, 0], DONE).index_copy(0, rows, token)
        live = torch.isin(token, ends, invert=True).nonzero()[:, 0]
        if not len(live):
            return
        if len(live) < len(rows):
            state.reorder(live)
            rows, token = rows[live], token[live]
        ids, mask = token[:, None], None


def likeliest(scores: Tensor, rows: Tensor, t: int) -> Tensor:
    best, token = top(scores, 1)  # (n, 1)
    refuse_broken(best)
    return token[:, 0]


greedy = partial(write, likeliest)
"Greedy search."


def forced_ids(prefix: Prefix, n_rows: int, device: torch.device) -> Tensor:
    """(B, P) with FREE behind the end of each row's own prefix."""
    assert not prefix or len(prefix) == n_rows, "one prefix for each row"
    longest = max(map(len, prefix), default=0)
    rows = [[*row, *[FREE] * (longest - len(row))] for row in prefix or [()] * n_rows]
    if (lowest := min((id for row in prefix for id in row), default=0)) < 0:
        raise UserError(f"the forced token {lowest} does not exist", "ids run from 0")
    return torch.tensor(rows, dtype=torch.long, device=device).view(n_rows, longest)


def refuse_unknown(forced: Tensor, vocab_size: int) -> None:
    if forced.numel() and int(forced.max()) >= vocab_size:
        raise UserError(f"the forced token {int(forced.max())} does not exist", f"ids run from 0 to {vocab_size - 1}")


def refuse_broken(best: Tensor) -> None:
    """Of the largest scores: max and topk call NaN the largest, so one of many shows here.

    A single -inf is no fault: so models and callers silence a word.
    """
    if not best.isfinite().all():
        raise UserError(
            "the model's weights give no number (NaN or infinity)",
            "the weights are damaged: get the model again; `regard convert --check-finite` names the tensors",
        )
