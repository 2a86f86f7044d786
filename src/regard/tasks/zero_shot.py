"""Labels for texts without training: a language model says which label is likeliest to follow (Brown et al. 2020).

A label may be likely whatever the text says, or because it is short. So its log-probability is set against the one it
has after an empty text (`prior`: Holtzman et al. 2021), or divided by its tokens (`length`), or left alone (`sum`).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from regard.config import require
from regard.errors import UserError, pick
from regard.tasks.batching import batches, check_finite, padded
from regard.tasks.classifier import Classification
from regard.tasks.generator import Generator
from regard.text.labelled import TEMPLATE, WAYS, By, checked_labels, parts_of

BATCH_TOKENS = 1024
"Tokens of prompts, with padding, that go through the model at once."
BATCH_SCORES = 256
"Tokens of labels that do: each asks for a score of every word."


def zero_shot(
    generator: Generator, text: str, labels: Sequence[str], template: str = TEMPLATE, *, by: By = "prior"
) -> Classification:
    return ZeroShot(generator, labels, template, by=by)([text])[0]


class ZeroShot:
    """`ZeroShot(generate, ["sport", "politics"])(texts)` gives a `Classification` for each text.

    The template says where text and label go, the label at its end. Of a text that is too long the end is cut off.
    """

    def __init__(
        self, generator: Generator, labels: Sequence[str], template: str = TEMPLATE, *, by: By = "prior"
    ) -> None:
        self.labels = checked_labels(labels)
        self._before, self._between = parts_of(template)
        self.model, self.tokenizer, self._encode = generator.model, generator.tokenizer, generator.encode
        self.by: By = pick(by, WAYS, "way to compare labels:")
        self._read_labels()
        self._prior: Tensor | None = None

    def _read_labels(self) -> None:
        """The tokens of each label, and how many at the end of a bare prompt are others before a label.

        Those are a space that goes over to the label, or an end that the vocabulary puts behind each text.
        """
        prompt = self._before + self._between
        bare, *whole = self.tokenizer.encode_ids([prompt, *(prompt + label for label in self.labels)])
        start = sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, zip(bare, *whole, strict=False)))
        self._n_back, self._tokens = len(bare) - start, [ids[start:] for ids in whole]
        for label, ids in zip(self.labels, self._tokens, strict=True):
            require(bool(ids), f"the label {label!r} is no token of this model's", "take another word")
        self._room = self.model.config.max_len - max(map(len, self._tokens))

    @torch.inference_mode()
    def __call__(
        self, texts: Sequence[str], *, first: int = 1, heard: Callable[[int], None] | None = None
    ) -> list[Classification]:
        """`first` is the number of the first text, `heard` is told meanwhile how many are done: as in `Classifier`."""
        if isinstance(texts, str):
            raise UserError("one text was given where a list is expected", "write classify([text])")
        prompts = [self._prompt(text) for text in texts]
        scores = np.zeros((len(prompts), len(self.labels)), dtype=np.float32)
        done = first - 1
        for batch in batches([len(ids) for ids in prompts], BATCH_TOKENS):
            scores[batch] = self._compared(self._log_chances([prompts[i] for i in batch])).softmax(-1).cpu().numpy()
            done += len(batch)
            if heard:
                heard(done)
        check_finite(scores, first)
        return [Classification(dict(zip(self.labels, row, strict=True))) for row in scores.tolist()]

    def _prompt(self, text: str) -> list[int]:
        """The ids before a label, of as much of the text as there is room for."""
        while True:
            ids = self._encode(self._before + text + self._between, raw=True)
            ids = ids[: len(ids) - self._n_back] or self._encode("", raw=True)
            if (excess := len(ids) - self._room) <= 0:
                return ids
            require(bool(text), f"the template and a label are {excess} tokens too long for the model", "shorten them")
            starts = [start for start, _ in self.tokenizer.encode(text, special=False).offsets]
            text = text[: min(starts[-excess], len(text) - 1)] if excess < len(starts) else ""

    def _compared(self, sums: Tensor) -> Tensor:
        if self.by == "length":
            return sums / torch.tensor([len(ids) for ids in self._tokens], device=sums.device)
        if self.by == "prior":
            if self._prior is None:
                self._prior = self._log_chances([self._prompt("")])
            return sums - self._prior
        return sums

    def _log_chances(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """The log-probability of each label after each prompt (B, labels); a prompt is read once for all labels."""
        ids, valid = padded(prompts, 0, self.model.device)
        state = self.model.new_state(len(prompts), ids.size(1) + max(map(len, self._tokens)))
        scores = self.model.step(ids, state, valid).float().log_softmax(-1)  # (B, V)
        sums = scores[:, [ids[0] for ids in self._tokens]]  # (B, labels)
        lengths, n_copies = state.lengths, 1
        for chunk in self._chunks(len(prompts)):
            rows = torch.arange(len(prompts), device=ids.device).repeat_interleave(len(chunk))
            state.truncate(lengths.repeat_interleave(n_copies))
            state.reorder(rows * n_copies)
            n_copies = len(chunk)
            sums[:, chunk] += self._rest(chunk, state, len(prompts))
        return sums

    def _chunks(self, n_prompts: int) -> Iterator[list[int]]:
        """Numbers of labels that have more than one token, as many as may be asked about at once."""
        longer = [k for k, ids in enumerate(self._tokens) if len(ids) > 1]
        for batch in batches([n_prompts * (len(self._tokens[k]) - 1) for k in longer], BATCH_SCORES):
            yield [longer[i] for i in batch]

    def _rest(self, chunk: Sequence[int], state: object, n_prompts: int) -> Tensor:
        """What the tokens after the first add (B, chunk); what stands behind a shorter label is not looked at."""
        read, valid = padded([self._tokens[k][:-1] for k in chunk], 0, self.model.device)
        wanted, _ = padded([self._tokens[k][1:] for k in chunk], 0, self.model.device)
        every = read.repeat(n_prompts, 1)  # (B * chunk, T)
        scores = self.model.steps(every, state, read.size(1)).float().log_softmax(-1)  # (B * chunk, T, V)
        found = scores.gather(-1, wanted.repeat(n_prompts, 1)[..., None])[..., 0].unflatten(0, (n_prompts, -1))
        return (found if valid is None else found.masked_fill(~valid, 0.0)).sum(-1)
