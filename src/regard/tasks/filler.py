"""Words for the gaps of a text, with a masked language model."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from regard.config import require
from regard.errors import QUOTED, UserError, cut
from regard.inspection.summary import Summary, summarise
from regard.models.bert import Bert
from regard.tasks.batching import batches, check_finite, padded
from regard.text.tokenizer import Tokenizer
from regard.text.words import token_name

BATCH_TOKENS = 1024
"Tokens, with padding, that go through the model at once: more no longer fit into the caches."
GAPS = r"\[MASK\]|_{3,}"
"How a gap may be written, whatever the vocabulary calls it."

Found = list[tuple[int, float]]
"Tokens with their probabilities, the likeliest first."


@dataclass(frozen=True)
class Candidate:
    token: str
    "As the vocabulary spells it, without spaces around it."
    id: int
    score: float
    "Its probability among all tokens."
    text: str
    "The text with it in its gap; other gaps stay."


@dataclass(frozen=True)
class Filling:
    text: str
    "All gaps filled: the surest first, then the model looks again."
    score: float
    "The probabilities with which they were, multiplied."
    gaps: tuple[tuple[Candidate, ...], ...]
    "The likeliest for each gap while the others are open."

    def __str__(self) -> str:
        return self.text


@dataclass
class Gapped:
    """A text with gaps while they are filled."""

    text: str
    spans: list[tuple[int, int]]
    "Where the gaps stand in the text."
    ids: list[int]
    places: list[int]
    "Where they stand among the ids."
    allowed: Sequence[list[int] | None]
    "For each gap the only tokens that may fill it, if not all may."


class Filler:
    """`fill("My dog is [MASK].")` gives a `Filling`; a gap may also be written `___` or as the model's own mask."""

    def __init__(self, model: Bert, tokenizer: Tokenizer) -> None:
        require(tokenizer.mask_id is not None, "the tokenizer has no mask token", "name it in tokenizer_config.json")
        self.model, self.tokenizer = model, tokenizer
        self._mask = tokenizer.special["mask"]
        self._gap = re.compile(f"{re.escape(self._mask)}|{GAPS}")

    def __call__(self, text: str, *, top: int = 5, targets: Sequence[str] | None = None) -> Filling:
        """The `top` likeliest for each gap; of `targets` only, where they are given."""
        return self.many([text], top=top, targets=targets)[0]

    @torch.inference_mode()
    def many(
        self,
        texts: Sequence[str],
        *,
        top: int = 5,
        targets: Sequence[str] | None = None,
        first: int = 1,
        heard: Callable[[int], None] | None = None,
    ) -> list[Filling]:
        """In the order of `texts`, each as if alone; `first` is the number of the first, for errors.

        `heard` is told meanwhile how many are done, those before the first included.
        """
        require(top >= 1, f"the {top} likeliest", "expected at least 1")
        drafts = [self._draft(text, number, targets) for number, text in enumerate(texts, first)]
        done, found = first - 1, {}
        for batch in batches([len(draft.ids) for draft in drafts], BATCH_TOKENS):
            for i, looked in zip(batch, self._look([drafts[i] for i in batch], top), strict=True):
                found[i] = looked
            done += len(batch)
            if heard:
                heard(done)
        check_finite(np.array([[found[i][0][0][1]] for i in range(len(drafts))]).reshape(-1, 1), first)
        return [self._filling(draft, found[i]) for i, draft in enumerate(drafts)]

    # ---- texts to ids

    def _draft(self, text: str, number: int, targets: Sequence[str] | None) -> Gapped:
        spans = [match.span() for match in self._gap.finditer(text)]
        where = f"text {number}"
        if not spans:
            own = "" if self._mask == "[MASK]" else f", or the model's own {self._mask},"
            hint = f"write [MASK] or ___{own} where a word is wanted"
            raise UserError(f"{where} has no gap to fill: {cut(text, QUOTED)}", hint)
        ids = self._encode(text)
        places = [place for place, id in enumerate(ids) if id == self.tokenizer.mask_id]
        if len(places) != len(spans):
            raise UserError(f"{where}: the tokenizer does not keep {self._mask} whole", "it is not one of its tokens")
        if len(ids) > self.model.config.max_len:
            longest = self.model.config.max_len
            raise UserError(f"{where} has {len(ids)} tokens, the model takes {longest}", "shorten it around the gap")
        draft = Gapped(text, spans, ids, places, [None] * len(spans))
        if targets is not None:
            require(bool(targets), "there are no targets", "give one word or more, or leave them out")
            draft.allowed = [[self._target(word, draft, gap) for word in targets] for gap in range(len(spans))]
        return draft

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode_ids([self._gap.sub(lambda _: self._mask, text)])[0]

    def _target(self, word: str, draft: Gapped, gap: int) -> int:
        """The token that the word would be in its gap, else the one that it is by itself."""
        (start, end), place = draft.spans[gap], draft.places[gap]
        inside = self._encode(draft.text[:start] + word + draft.text[end:])
        alone = self.tokenizer.encode_ids([word], special=False)[0]
        if [*draft.ids[:place], *inside[place : place + 1], *draft.ids[place + 1 :]] == inside:
            alone = [inside[place]]
        if len(alone) != 1:
            tokens = ", ".join(self.tokenizer.token_of(id) for id in alone)
            hint = "a target must be one token: take a shorter or commoner word"
            raise UserError(f"the target '{cut(word, QUOTED)}' is {len(alone)} tokens ({cut(tokens, QUOTED)})", hint)
        if alone[0] == self.tokenizer.unk_id:
            raise UserError(f"the target '{cut(word, QUOTED)}' is not in the vocabulary", "take another word")
        return alone[0]

    # ---- ids to probabilities

    def _look(self, drafts: Sequence[Gapped], top: int) -> list[list[Found]]:
        """For each gap of each text what is likeliest there."""
        ids, valid = padded([draft.ids for draft in drafts], 0, self.model.device)
        at = torch.zeros_like(ids, dtype=torch.bool)  # the output layer sees the gaps alone
        for row, draft in enumerate(drafts):
            at[row, draft.places] = True
        logits = self.model(ids, valid, at=at).heads["masked_lm"]  # (gaps, V)
        chances = iter(logits.float().softmax(-1))
        return [[_likeliest(next(chances), top, only) for only in draft.allowed] for draft in drafts]

    # ---- and back to texts

    def _filling(self, draft: Gapped, found: list[Found]) -> Filling:
        gaps = tuple(
            tuple(self._candidate(draft, gap, id, chance) for id, chance in likeliest)
            for gap, likeliest in enumerate(found)
        )
        chosen = self._surest_first(draft, [likeliest[0] for likeliest in found])
        text = self._filled(draft, {gap: id for gap, (id, _) in chosen.items()})
        return Filling(text, math.prod(chance for _, chance in chosen.values()), gaps)

    def _surest_first(self, draft: Gapped, best: list[tuple[int, float]]) -> dict[int, tuple[int, float]]:
        """A token for each gap; one is filled, and the others are looked at anew."""
        chosen: dict[int, tuple[int, float]] = {}
        ids, left = list(draft.ids), list(range(len(best)))
        while True:
            at = max(range(len(left)), key=lambda i: best[i][1])
            gap = left.pop(at)
            chosen[gap] = best[at]
            ids[draft.places[gap]] = best[at][0]
            if not left:
                return chosen
            places, allowed = [draft.places[each] for each in left], [draft.allowed[each] for each in left]
            rest = replace(draft, ids=ids, places=places, allowed=allowed)
            best = [likeliest[0] for likeliest in self._look([rest], 1)[0]]

    def _candidate(self, draft: Gapped, gap: int, id: int, chance: float) -> Candidate:
        token = self.tokenizer.decode([id], skip_special=False).strip() or token_name(id, self.tokenizer)
        return Candidate(token, id, chance, self._filled(draft, {gap: id}))

    def _filled(self, draft: Gapped, tokens: dict[int, int]) -> str:
        """The text as it was written, with tokens in these gaps; what continues a word stands close to it."""
        text, end = "", 0
        for gap, span in enumerate(draft.spans):
            text += draft.text[end : span[0]]
            end = span[1]
            if gap not in tokens:
                text += draft.text[slice(*span)]
                continue
            piece = self._piece(tokens[gap])
            text = (text if piece[:1].isspace() or not text.strip() else text.rstrip()) + piece.lstrip()
        return text + draft.text[end:]

    def _piece(self, id: int) -> str:
        """What the token adds to a text behind a word: a space first, unless it goes on with the word."""
        both = self.tokenizer.decode([self._word, id], skip_special=False)
        return both.removeprefix(self.tokenizer.decode([self._word], skip_special=False))

    @cached_property
    def _word(self) -> int:
        return self.tokenizer.encode_ids(["a"], special=False)[0][0]

    def summary(self) -> Summary:
        return summarise(self.model)


def _likeliest(chances: torch.Tensor, top: int, only: Iterable[int] | None) -> Found:
    """Of one gap's probabilities (V)."""
    ids = None if only is None else torch.tensor(sorted(set(only)), device=chances.device)
    values = chances if ids is None else chances[ids]
    best = values.topk(min(top, len(values)))
    numbers = best.indices if ids is None else ids[best.indices]
    return list(zip(numbers.tolist(), best.values.tolist(), strict=True))
