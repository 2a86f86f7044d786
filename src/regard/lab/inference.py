"""What must not change an answer: the cache, the company, padding, what comes later, the search, the kernel."""

from collections.abc import Set
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.decoding.beam import BeamSettings, beam_search
from regard.decoding.search import DONE, greedy
from regard.lab.finding import DoesNotApply, Found, compare
from regard.lab.subject import ROWS, Input, Subject
from regard.lab.twins import kernels, readable

LIMIT = 8
"Tokens that are written."


def cached_is_uncached(subject: Subject) -> Found:
    """Token by token, in pieces, and after prompts of unequal lengths padded on either side."""
    subject.must_write("has no cache")
    given, step = _padded_source(subject), subject.model.step
    x, rows, lengths = given.x, torch.arange(ROWS), subject.ragged
    whole, pairs = subject.run(given).logits, []
    for size in (1, 4):
        state, end = subject.state(given, subject.length), 0
        for piece in x.split(size, dim=1):
            end += piece.size(1)
            pairs.append((step(piece, state, None), whole[:, end - 1]))
    for left in (True, False):
        state = subject.state(given, subject.length)
        prompt, valid = subject.frame(x, lengths, subject.length, left=left)
        pairs.append((step(prompt, state, valid), whole[rows, lengths - 1]))
        for t in range(subject.length - int(lengths.max())):
            pairs.append((step(x[rows, lengths + t][:, None], state, None), whole[rows, lengths + t]))
    return compare(pairs)


def _padded_source(subject: Subject) -> Input:
    """The plain texts; those of an encoder-decoder after sources of unequal lengths."""
    return replace(subject.padded(subject.ragged, subject.length, left=True), x=subject.plain.x, valid=None)


def batch_mates_do_not_matter(subject: Subject) -> Found:
    """The same rows, padding and all, together and each alone: only the company differs."""
    pairs: list[tuple[Tensor, Tensor]] = []
    for given in subject.inputs:
        alone = zip(*(subject.everything(given.row(i)) for i in range(ROWS)), strict=True)
        pairs += zip(subject.everything(given), map(torch.cat, alone), strict=True)
    return compare(pairs)


def padding_does_not_matter(subject: Subject) -> Found:
    if subject.sees:
        raise DoesNotApply("images are never padded")
    plain, full = subject.said(subject.plain), torch.tensor([subject.length] * ROWS)
    padded = (subject.said(subject.padded(full, subject.length + 3, left=left)) for left in (True, False))
    return compare(pair for each in padded for pair in zip(each, plain, strict=True))


def later_tokens_do_not_reach_back(subject: Subject) -> Found:
    """Each row is changed from another place on; in training too, where a leak would teach the model to copy."""
    if not subject.causal:
        raise DoesNotApply(f"{subject.kind} may look at all of its input")
    x, length = subject.plain.x, subject.length
    kept = torch.arange(length) < torch.tensor([[1], [length // 3], [2 * length // 3], [length - 1]])  # (B, T)
    changed = replace(subject.plain, x=torch.where(kept, x, (x + 1) % subject.n_words))
    pairs: list[tuple[Tensor, Tensor]] = []
    for training in (False, True):
        subject.model.train(training)
        pairs += zip(_kept(subject, subject.plain, kept), _kept(subject, changed, kept), strict=True)
    return compare(pairs, exact=True)


def _kept(subject: Subject, given: Input, kept: Tensor) -> list[Tensor]:
    torch.manual_seed(0)  # the same dropout on both sides
    out = subject.run(given)
    return [each[kept] for each in (out.hidden, out.logits) if each.dim() == 3]


def beam_of_one_is_greedy(subject: Subject) -> Found:
    """The same tokens as likely as before; first to the limit, then with ends that some rows reach earlier."""
    subject.must_write("writes no text")
    texts, found = _search(subject, frozenset())
    ends = {texts[1][len(texts[1]) // 4], texts[2][len(texts[2]) // 2], *subject.model.config.eos_ids}
    return max(found, _search(subject, ends)[1], key=lambda each: each.closeness)


def _search(subject: Subject, ends: Set[int]) -> tuple[list[list[int]], Found]:
    """What greedy search writes while no row leaves the batch, and how beam and greedy search with ends differ."""
    given, limit, scores = _padded_source(subject), min(LIMIT, subject.model.config.max_len), []

    def step(*args: Any) -> Tensor:
        scores.append(subject.model.step(*args))
        return scores[-1]

    def written(ends: Set[int]) -> Tensor:
        steps = greedy(step, subject.state(given, limit), given.x[:, :1], limit=limit, end_ids=ends)
        return torch.stack(list(steps), dim=1)  # (B, T)

    tokens = written(frozenset())
    logits = torch.stack(scores, dim=1).float()  # (B, T, V)
    gains = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]  # (B, T)
    texts = [_until(ends, row) for row in tokens.tolist()]
    beam = beam_search(
        step, subject.state(given, limit), given.x[:, 0], BeamSettings(beams=1), limit=limit, end_ids=ends
    )
    found = [best for best, *_ in beam]
    leaving = [[id for id in row if id != DONE] for row in written(ends).tolist()]
    wrong = sum(not text == list(best.ids) == left for text, best, left in zip(texts, found, leaving, strict=True))
    if wrong:
        return texts, Found(float(wrong), note=f"{wrong} of {ROWS} texts differ")
    pairs = [
        (torch.tensor(best.log_probabilities), row[: len(best.ids)]) for best, row in zip(found, gains, strict=True)
    ]
    return texts, compare(pairs, scale=float(logits.abs().max()))


def _until(ends: Set[int], text: list[int]) -> list[int]:
    """The text up to its first end, which belongs to it."""
    return text[: next((t for t, id in enumerate(text, start=1) if id in ends), None)]


def fused_is_readable(subject: Subject) -> Found:
    """PyTorch's kernels for attention and recurrence against what reads like the paper."""
    with kernels():
        fast = [each for given in subject.inputs for each in subject.everything(given)]
    with readable():
        slow = [each for given in subject.inputs for each in subject.everything(given)]
    return compare(zip(fast, slow, strict=True))
