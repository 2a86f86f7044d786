"""How likely a model finds a token where it stands: after what comes before it, or between both sides."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Protocol

import torch

from regard.tasks.batching import batches, padded
from regard.tasks.filler import Filler
from regard.tasks.generator import Generator

BATCH_TOKENS = 512
"Tokens at once: each asks for a score of every word."
Places = Sequence[int]


class Reader(Protocol):
    model: Any
    sees_after: bool
    "Whether it knows what follows a token when it judges it."

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        """Ids, and the places of those that stand for the text itself."""

    def log_chances(self, rows: Sequence[list[int]], places: Sequence[Places]) -> list[list[float]]:
        """Of each row the natural logarithms of the probabilities at these places."""


class Causal:
    """log p(token | those before it); the first follows the token that begins a text."""

    sees_after = False

    def __init__(self, generator: Generator) -> None:
        self.model, self.tokenizer = generator.model, generator.tokenizer
        config = self.model.config
        starts = [self.tokenizer.bos_id, config.bos_id, *config.eos_ids]
        self._start = next((id for id in starts if id is not None), None)

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        ids = self.tokenizer.encode_ids([text], special=False)[0]
        ids = ids if self._start is None else [self._start, *ids]
        return ids, list(range(1, len(ids)))

    @torch.inference_mode()
    def log_chances(self, rows: Sequence[list[int]], places: Sequence[Places]) -> list[list[float]]:
        found: list[list[float]] = [[] for _ in rows]
        for batch in batches([len(row) for row in rows], BATCH_TOKENS):
            ids, valid = padded([rows[i] for i in batch], 0, self.model.device)
            logits = self.model(ids, valid).logits  # (B, T, V)
            for row, i in enumerate(batch):  # one by one: the logarithms of all would take as much again
                at = torch.tensor(places[i], dtype=torch.long, device=ids.device)
                chances = logits[row, at - 1].float().log_softmax(-1)  # (places, V)
                found[i] = chances.gather(-1, ids[row, at][:, None])[:, 0].tolist()
        return found


class Masked:
    """log p(token | all others): each is hidden in turn (pseudo-likelihood, Salazar et al. 2020)."""

    sees_after = True

    def __init__(self, filler: Filler) -> None:
        self.model, self.tokenizer = filler.model, filler.tokenizer

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        ids, bare = self.tokenizer.encode_ids([text])[0], self.tokenizer.encode_ids([text], special=False)[0]
        start = next((i for i in range(len(ids) - len(bare) + 1) if ids[i : i + len(bare)] == bare), 0)
        return ids, list(range(start, start + len(bare)))

    @torch.inference_mode()
    def log_chances(self, rows: Sequence[list[int]], places: Sequence[Places]) -> list[list[float]]:
        asked = [(i, place) for i, some in enumerate(places) for place in some]
        found: dict[tuple[int, int], float] = {}
        for batch in batches([len(rows[i]) for i, _ in asked], BATCH_TOKENS):
            ids, valid = padded([rows[asked[k][0]] for k in batch], 0, self.model.device)
            at = torch.tensor([asked[k][1] for k in batch], device=ids.device)[:, None]
            wanted = ids.gather(1, at)
            ids.scatter_(1, at, self._mask)
            hidden = torch.zeros_like(ids, dtype=torch.bool).scatter_(1, at, True)
            logits = self.model(ids, valid, at=hidden).heads["masked_lm"]  # (B, V)
            values = logits.float().log_softmax(-1).gather(-1, wanted)[:, 0].tolist()
            found.update(zip((asked[k] for k in batch), values, strict=True))
        return [[found[i, place] for place in some] for i, some in enumerate(places)]

    @property
    def _mask(self) -> int:
        assert self.tokenizer.mask_id is not None, "a Filler has one"
        return self.tokenizer.mask_id


def reader_of(task: Generator | Filler) -> Reader:
    return Causal(task) if isinstance(task, Generator) else Masked(task)


def fits(reader: Reader, *texts: str) -> bool:
    return all(len(reader.encode(text)[0]) <= reader.model.config.max_len for text in texts)


def shared(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], list[int]]:
    """The places of what two texts have in common, in each of them (Nangia et al. 2020, section 4)."""
    blocks = SequenceMatcher(None, list(one), list(other), autojunk=False).get_matching_blocks()
    ours = [block.a + i for block in blocks for i in range(block.size)]
    theirs = [block.b + i for block in blocks for i in range(block.size)]
    return ours, theirs
