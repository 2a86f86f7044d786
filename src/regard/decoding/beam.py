"""Beam search: of all continuations, the best few are kept at every step.

Those among the kept that end are finished; the others go on. A beam of one is greedy search. Hypotheses are
compared by the sum of their log-probabilities divided by length ** length_penalty, the end counted as a token.

A sentence's search is over when no live hypothesis can still beat the finished ones. That is decided exactly:
log-probabilities only ever lower a sum, so a sum now, divided at the most favourable length that is left, is a
bound on every score it may grow into. All sentences of a batch and all their hypotheses are rows of one state;
they are chosen, multiplied and dropped by `reorder` alone.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.config import require
from regard.decoding.search import FREE, Prefix, S, Step, forced_ids, refuse_broken, refuse_unknown
from regard.decoding.top import log_probs, top, top_log_probs
from regard.decoding.tree import Candidate, Growth, Reason, Tree
from regard.errors import UserError

NONE = -1
"Stands behind the end of a hypothesis that is shorter than its neighbours."
MAX_PENALTY = 10
"Far beyond any use, and small enough that no length to this power overflows."


@dataclass(frozen=True)
class BeamSettings:
    """What is searched for, the same for every sentence."""

    beams: int = 4
    "Hypotheses kept at every step."
    n_best: int = 1
    "Finished ones to return."
    length_penalty: float = 1.0
    exact: bool = True
    "Otherwise live hypotheses are judged by their present length: fewer steps, but a better longer one may be missed."
    keep_tree: bool = False

    def __post_init__(self) -> None:
        require(self.beams >= 1, f"a beam of {self.beams}", "expected at least 1")
        require(self.n_best >= 1, f"the {self.n_best} best were asked for", "expected at least 1")
        fits = abs(self.length_penalty) <= MAX_PENALTY  # and is a number
        require(fits, f"the length penalty is {self.length_penalty}", f"expected {-MAX_PENALTY} to {MAX_PENALTY}")


@dataclass(frozen=True)
class Hypothesis:
    ids: tuple[int, ...]
    "All tokens, a forced prefix and the end included."
    score: float
    "log_probability / length ** length_penalty"
    log_probability: float
    log_probabilities: tuple[float, ...]
    "Of each token."
    reason: Literal["end", "limit"]
    tree: Tree | None = field(default=None, repr=False, compare=False)
    "Of the whole sentence, where it was asked for."


@torch.no_grad()
def beam_search(
    step: Step[S],
    state: S,
    start: Tensor,
    settings: BeamSettings,
    *,
    limit: int | Sequence[int],
    end_ids: Collection[int],
    prefix: Prefix = (),
    seen: Callable[[Tensor, Tensor], None] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence, best first, after its token in `start` (B).

    The state holds B rows and is used up. `limit` counts tokens, the prefix and the end included, for all
    sentences or for each. `seen` is shown after each step what is live: ids (n, W, T) and their sums (n, W).
    """
    limits = torch.tensor([limit] * len(start) if isinstance(limit, int) else list(limit), device=start.device)
    require(bool((limits >= 1).all()), "a limit is below 1", "expected at least one token")
    forced = forced_ids(prefix, len(start), start.device)
    search = _Search(settings, start, limits=limits, forced=forced, end_ids=frozenset(end_ids))
    while len(search.sentences):
        scores = step(search.last, state, None)  # (n · W, V)
        rows = search.advance(scores)
        if seen:
            seen(search.live.ids, search.live.values)
        in_place = len(rows) == len(scores) and torch.equal(rows, torch.arange(len(rows), device=rows.device))
        if len(rows) and not in_place:
            state.reorder(rows)
    return search.results


class _Paths(NamedTuple):
    """Hypotheses of n sentences; an empty place has the value -inf."""

    values: Tensor
    "(n, W) sums of log-probabilities of live ones, scores of finished ones."
    ids: Tensor
    "(n, W, T)"
    log_probs: Tensor
    "(n, W, T)"

    def of(self, sentences: Tensor) -> "_Paths":
        return _Paths(*(each[sentences] for each in self))

    def grown(self, values: Tensor, parents: Tensor, tokens: Tensor, log_probs: Tensor) -> "_Paths":
        """Hypothesis parents[i, j] with one more token becomes hypothesis j of sentence i."""
        ids, before = self.ids, self.log_probs
        if self.values.size(1) > 1 or parents.size(1) > 1:  # else there is nothing to choose
            index = parents[..., None].expand(-1, -1, ids.size(-1))
            ids, before = ids.gather(1, index), before.gather(1, index)
        ids = torch.cat([ids, tokens[..., None]], dim=-1)
        return _Paths(values, ids, torch.cat([before, log_probs[..., None]], dim=-1))

    def best(self, n: int) -> "_Paths":
        values, index = self.values.topk(min(n, self.values.size(1)))
        wide = index[..., None].expand(-1, -1, self.ids.size(-1))
        return _Paths(values, self.ids.gather(1, wide), self.log_probs.gather(1, wide))

    def beside(self, other: "_Paths") -> "_Paths":
        """Both; ours are made as long as theirs."""
        more = other.ids.size(-1) - self.ids.size(-1)
        ours = _Paths(self.values, _pad(self.ids, more, NONE), _pad(self.log_probs, more, 0.0))
        return _Paths(*(torch.cat(pair, dim=1) for pair in zip(ours, other, strict=True)))


def _pad(x: Tensor, more: int, value: float) -> Tensor:
    return torch.nn.functional.pad(x, (0, more), value=value)


class _Search:
    """The sentences whose search is not over: n of them, W live hypotheses each."""

    def __init__(
        self, settings: BeamSettings, start: Tensor, *, limits: Tensor, forced: Tensor, end_ids: frozenset[int]
    ) -> None:
        n, device = len(start), start.device
        self.settings, self.limits, self.forced, self.end_ids = settings, limits, forced, end_ids
        self.ends = torch.tensor(sorted(end_ids), dtype=torch.long, device=device)
        self.last = start[:, None]
        "(n · W, 1) what the model reads next."
        self.length = 0
        self.sentences = torch.arange(n, device=device)
        nothing = torch.zeros(n, 1, 0, device=device)
        self.live = _Paths(torch.zeros(n, 1, device=device), nothing.long(), nothing)
        self.finished = _Paths(torch.full((n, 0), -torch.inf, device=device), nothing.long()[:, :0], nothing[:, :0])
        self.trees = [Growth(settings.length_penalty) for _ in range(n)] if settings.keep_tree else None
        self.results: list[list[Hypothesis]] = [[] for _ in range(n)]

    def advance(self, scores: Tensor) -> Tensor:
        """Scores (n · W, V) of the next tokens to the rows of the state that go on, in their new order."""
        n, width = self.live.values.shape
        scores = scores.float().unflatten(0, (n, width))  # (n, W, V)
        whole = self.trees is not None or self.length < self.forced.size(1)  # else only the best of all are asked for
        if whole:
            scores = self._force(log_probs(scores))
        grown, parents, behind = self._expand(scores, whole)
        self.length += 1
        over = torch.isin(grown.ids[..., -1], self.ends) | (self.limits <= self.length)[:, None]
        some_over = bool(over.any())  # of most steps none: what follows is then nothing
        if some_over:
            over &= grown.values > -torch.inf
            self._finish(grown, over)
        if self.trees is not None:
            self._record(scores, grown, parents, behind)
        rows = torch.arange(0, n * width, width, device=parents.device)[:, None] + parents
        self._go_on(grown._replace(values=grown.values.masked_fill(over, -torch.inf)) if some_over else grown)
        if self.finished.values.size(1):
            is_open = self._can_improve(self.live.values)
            if not is_open.all():
                rows = rows[is_open]
                self._leave((~is_open).nonzero()[:, 0])
                self._keep(is_open.nonzero()[:, 0])
        return rows.flatten()

    def _force(self, log_probs: Tensor) -> Tensor:
        if self.length >= self.forced.size(1):
            return log_probs
        refuse_unknown(self.forced, log_probs.size(-1))
        forced = self.forced[:, self.length, None, None]  # (n, 1, 1)
        others = torch.arange(log_probs.size(-1), device=forced.device) != forced
        left = log_probs.masked_fill((forced != FREE) & others, -torch.inf)
        if (left.amax(-1)[:, 0] == -torch.inf).any():
            raise UserError("the model gives a forced token no chance at all", "force another one")
        return left

    def _expand(self, scores: Tensor, whole: bool) -> tuple[_Paths, Tensor, tuple[Tensor, ...]]:
        """The best continuations and their parents; with a tree, also as many of those right behind them.

        The `whole` of the scores may be log-probabilities already.
        """
        wanted = self.settings.beams * (2 if self.trees is not None else 1)
        # The best of all are among the best of each: two small sortings instead of a large one.
        gains, tokens = (top if whole else top_log_probs)(scores, min(wanted, scores.size(-1)))  # (n, W, k)
        refuse_broken(gains[..., 0].exp())  # where a forced token has no chance, 0 is a number and -inf is not
        totals = (self.live.values[..., None] + gains).flatten(1)  # (n, W · k)
        own = tokens.flatten(1), gains.flatten(1)
        if totals.size(1) == 1:  # greedy search
            return self.live.grown(totals, parents := torch.zeros_like(own[0]), *own), parents, ()
        values, place = totals.topk(min(wanted, totals.size(1)))  # (n, k)
        parents = place // tokens.size(-1)
        found = values, parents, *(each.gather(1, place) for each in own)
        kept = tuple(each[:, : self.settings.beams] for each in found)
        return self.live.grown(*kept), kept[1], tuple(each[:, self.settings.beams :] for each in found)

    def _finish(self, grown: _Paths, over: Tensor) -> None:
        scores = (grown.values / self.length**self.settings.length_penalty).masked_fill(~over, -torch.inf)
        ids = grown.ids.masked_fill(~over[..., None], NONE)
        new = grown._replace(values=scores, ids=ids)
        self.finished = self.finished.beside(new).best(self.settings.n_best)

    def _can_improve(self, totals: Tensor) -> Tensor:
        """(n) True where a live hypothesis can still beat the last of the finished ones."""
        penalty = self.settings.length_penalty
        # A sum is below zero. Divided by a power of the length it is best when longest, multiplied when shortest.
        longest = penalty > 0 and self.settings.exact
        length = self.limits if longest else torch.full_like(self.limits, self.length + 1)
        few = self.finished.values.size(1) < self.settings.n_best
        worst = -torch.inf if few else self.finished.values[:, -1]
        return totals.amax(-1) / length.float() ** penalty > worst

    def _go_on(self, live: _Paths) -> None:
        self.live, self.last = live, live.ids[..., -1].flatten()[:, None]

    def _keep(self, sentences: Tensor) -> None:
        self.finished = self.finished.of(sentences)
        self.sentences, self.limits, self.forced = (x[sentences] for x in (self.sentences, self.limits, self.forced))
        self._go_on(self.live.of(sentences))

    def _leave(self, rows: Tensor) -> None:
        """These sentences are over."""
        done = self.finished.of(rows)
        for sentence, ids, gains in zip(
            self.sentences[rows].tolist(), done.ids.tolist(), done.log_probs.tolist(), strict=True
        ):
            found = [self._hypothesis(*pair) for pair in zip(ids, gains, strict=True) if pair[0][0] != NONE]
            found.sort(key=lambda each: -each.score)
            tree = self.trees[sentence].close(found[0].ids, len(found)) if self.trees is not None else None
            self.results[sentence] = [replace(each, tree=tree) for each in found]

    def _hypothesis(self, ids: list[int], gains: list[float]) -> Hypothesis:
        length = len(ids) - ids.count(NONE)
        total = math.fsum(gains[:length])
        score = total / length**self.settings.length_penalty
        reason: Literal["end", "limit"] = "end" if ids[length - 1] in self.end_ids else "limit"
        return Hypothesis(tuple(ids[:length]), score, total, tuple(gains[:length]), reason)

    def _record(self, log_probs: Tensor, grown: _Paths, parents: Tensor, behind: tuple[Tensor, ...]) -> None:
        assert self.trees is not None
        kept = grown.values, parents, grown.ids[..., -1], grown.log_probs[..., -1]
        totals = self.live.values[..., None] + log_probs  # (n, W, V)
        best = totals.amax(-1, keepdim=True)
        # One hypothesis after the other: all at once are W · W · V comparisons in memory.
        better = [(totals > each).sum((1, 2)) for each in best.split(1, dim=1)]
        ranks = torch.stack(better, dim=1) + 1  # (n, W) of each hypothesis's best continuation
        for i, sentence in enumerate(self.sentences.tolist()):
            self.trees[sentence].grow(self._candidates(kept, i), self._candidates(behind, i), ranks[i].tolist())

    def _candidates(self, found: tuple[Tensor, ...], i: int) -> list[Candidate]:
        at_limit: Reason | None = "limit" if self.length >= int(self.limits[i]) else None
        rows = zip(*(each[i].tolist() for each in found), strict=True)
        return [
            Candidate(slot, token, gain, total, "end" if token in self.end_ids else at_limit)
            for total, slot, token, gain in rows
        ]
