"""Prompt lookup (Saxena 2023): greedy search that guesses its next tokens from what it has read and written.

Answers quote: where the last tokens stood before, what followed them then is proposed, and one pass of the model
judges all of it (Leviathan et al. 2023). The agreeing tokens are kept, with the model's own after them, and the state
forgets the rest: the text is greedy search's own, in fewer steps.

A pass over several tokens costs more than one over one token, so guesses that fail make wary: a passage is then
followed without asking the model, and proposed once it has foretold a few tokens in a row. Text that repeats nothing
so costs what it costs in greedy search.
"""

from collections.abc import Callable, Collection, Iterator

import torch
from torch import Tensor

from regard.decoding.search import S, likeliest

Steps = Callable[[Tensor, S, int], Tensor]
"Appends ids (1, T) to the state; scores (1, n, V) of the tokens after each of the last n."

NGRAM = 3
"So many last tokens are looked up."
LONGEST = 8
"Tokens that are proposed at most: judging eight costs about one step more, and each that agrees saves one."
WORTH = 2
"Tokens that must agree for a guess to have paid."
MAX_DOUBT = 16


class Passage:
    """An earlier passage of the text, followed token by token."""

    def __init__(self, ids: list[int]) -> None:
        self.ids: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}
        "Where the text went on after an n-gram when it last occurred."
        self._next: int | None = None
        "Where the token stands that is foretold."
        self._n_right = 0
        self._doubt = 0
        "Tokens that a passage must have foretold before it is proposed."
        for id in ids:
            self.append(id)

    def append(self, id: int) -> None:
        right = self._next is not None and self.ids[self._next] == id
        self.ids.append(id)
        tail, end = tuple(self.ids[-NGRAM:]), len(self.ids)
        if self._next is not None and right:
            self._next, self._n_right = self._next + 1, self._n_right + 1
        else:
            self._next, self._n_right = self._behind.get(tail), 0
        self._behind[tail] = end

    def propose(self, at_most: int) -> list[int]:
        """What comes next if the text goes on as before."""
        if self._next is None or self._n_right < self._doubt:
            return []
        return self.ids[self._next : self._next + min(at_most, LONGEST)]

    def learn(self, n_agreed: int) -> None:
        """How many tokens of a guess were right."""
        self._doubt = self._doubt // 2 if n_agreed >= WORTH else min(max(1, 2 * self._doubt), MAX_DOUBT)


@torch.no_grad()
def speculate(
    steps: Steps[S], state: S, prompt: Tensor, *, limit: int, end_ids: Collection[int] = ()
) -> Iterator[Tensor]:
    """Yields what `greedy` yields, for one row."""
    assert len(prompt) == 1, "one row: others would have to wait for it"
    passage = Passage(prompt[0].tolist())
    unread, left = prompt, limit
    while left:
        guess = passage.propose(left - 1)  # the model's own token comes after it
        ids = torch.cat([unread, unread.new_tensor([guess], dtype=torch.long)], dim=1)
        scores = steps(ids, state, len(guess) + 1)[0]  # (n, V)
        own = likeliest(scores, prompt, 0)
        agreed = next((i for i, id in enumerate(guess) if id != own[i]), len(guess))
        for token in own[: agreed + 1].split(1):
            yield token
            left -= 1
            if int(token) in end_ids:
                return
            passage.append(int(token))
        if guess:
            passage.learn(agreed)
            state.truncate(state.lengths - (len(guess) - agreed))
        unread = own[None, agreed : agreed + 1]
