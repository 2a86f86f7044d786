"""Which label a text, or a pair of texts, has; or what value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import require
from regard.data.inputs import Input, InputSettings, inputs_of
from regard.errors import UserError
from regard.inspection.summary import Summary, summarise
from regard.models.base import Problem
from regard.models.bert import Bert
from regard.tasks.batching import batches, check_finite, padded
from regard.text.tokenizer import Tokenizer

BATCH_TOKENS = 1024
"Tokens, with padding, that go through the model at once: more no longer fit into the caches."
LIKELY = 0.5
"From this probability on, a label that may stand beside others is given."

WRONG_NUMBER = {
    1: ("this model has learnt from single texts, and these are pairs", "give one text at a time"),
    2: ("this model compares two texts, and here is one", "give both: --pairs, two columns, or (one, other) in Python"),
}


@dataclass(frozen=True)
class Classification:
    scores: dict[str, float]
    "Of all labels, in the model's order: probabilities; of a regression, values."
    problem: Problem = "single_label_classification"

    @property
    def label(self) -> str:
        """The likeliest."""
        return max(self.scores, key=self.scores.__getitem__)

    @property
    def score(self) -> float:
        """Of the label; of a regression with one, the value."""
        return self.scores[self.label]

    @property
    def labels(self) -> tuple[str, ...]:
        """All that hold, the likeliest first: none or several where each stands for itself."""
        if self.problem != "multi_label_classification":
            return (self.label,)
        return tuple(label for label, score in self.best() if score >= LIKELY)

    def best(self, top: int | None = None) -> list[tuple[str, float]]:
        """The likeliest first."""
        return sorted(self.scores.items(), key=lambda item: -item[1])[:top]

    def __str__(self) -> str:
        return f"{self.score:.4g}" if self.problem == "regression" else ", ".join(self.labels)


class Classifier:
    """`classify(["a text", ...])` or `classify([("a text", "its pair"), ...])` gives a `Classification` for each.

    What one says depends neither on the others nor on their order.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, settings: InputSettings | None = None) -> None:
        self.model, self.tokenizer = model, tokenizer
        labels, limit = model.config.labels, model.config.max_len
        require(len(set(labels)) == len(labels), "two labels have the same name", "see id2label in config.json")
        settings = settings or InputSettings()
        self.settings = replace(settings, max_len=min(settings.max_len or limit, limit))
        self.max_len, self.n_cut = self.settings.max_len, 0
        "Texts so far that were too long to be read whole."
        n_segments = model.config.n_segments if isinstance(model, Bert) else 0
        self._takes_segments = n_segments > 1
        marked = max(tokenizer.encode("a", "a").segments, default=0) + 1
        require(
            not self._takes_segments or marked <= n_segments,
            f"the tokenizer tells {marked} segments apart, the model {n_segments}",
            "the tokenizer and the weights do not belong together",
        )

    @torch.inference_mode()
    def __call__(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        *,
        first: int = 1,
        heard: Callable[[int], None] | None = None,
    ) -> list[Classification]:
        """`first` is the number of the first text, for whoever gives them in portions and wants errors to count on.

        `heard` is told meanwhile how many are done, those before the first included.
        """
        rows = rows_of(texts, first)
        if rows and self.settings.n_texts not in (None, len(rows[0])):
            raise UserError(*WRONG_NUMBER[self.settings.n_texts or 1])
        inputs = inputs_of(rows, self.tokenizer, self.settings)
        self.n_cut += sum(each.n_cut > 0 for each in inputs)
        if empty := [number for number, each in enumerate(inputs, first) if not each.ids]:
            raise UserError(f"input line {empty[0]} is empty", "this model needs at least one token")
        labels, done = self.model.config.labels, first - 1
        scores = np.zeros((len(inputs), len(labels)), dtype=np.float32)
        for batch in batches([len(each.ids) for each in inputs], BATCH_TOKENS):
            scores[batch] = self._run([inputs[i] for i in batch])
            done += len(batch)
            if heard:
                heard(done)
        check_finite(scores, first)
        return [Classification(dict(zip(labels, row, strict=True)), self.problem) for row in scores.tolist()]

    @property
    def problem(self) -> Problem:
        problem: Problem = self.model.config.labelling
        return problem

    def _run(self, inputs: list[Input]) -> NDArray[np.float32]:
        ids, valid = padded([each.ids for each in inputs], 0, self.model.device)
        more = {}
        if self._takes_segments:
            more["segments"], _ = padded([each.segments for each in inputs], 0, self.model.device)
        out = self.model(ids, valid, **more)
        logits = out.heads.get("classify", out.logits).float()  # (B, labels)
        if self.problem == "multi_label_classification":
            logits = logits.sigmoid()
        elif self.problem == "single_label_classification":
            logits = logits.softmax(-1)
        return logits.cpu().numpy()

    def summary(self) -> Summary:
        return summarise(self.model)


def rows_of(texts: Sequence[str] | Sequence[tuple[str, str]], first: int = 1) -> list[tuple[str, ...]]:
    """Each text as a row of one, each pair as one of two; a mixture is refused."""
    if isinstance(texts, str):
        raise UserError("one text was given where a list is expected", "write classify([text])")
    rows = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    for number, row in enumerate(rows, first):
        if len(row) not in (1, 2) or len(row) != len(rows[0]):
            raise UserError(f"input line {number} has {len(row)} texts", "give single texts, or pairs, but not both")
    return rows
