"""Words with a tag each: precision, recall and F1 of the spans that the tags mark."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from regard.data.corpus import Row
from regard.data.pairs import padded
from regard.data.shards import Shards
from regard.data.tagged import Tagged, TaggedBatch, collate_tagged, tags_of, word_windows, words_and_tags
from regard.data.windows import places_of
from regard.errors import QUOTED, UserError, cut
from regard.evaluation.tagging import tag_scores
from regard.models.base import Model
from regard.objectives.tag import Tag
from regard.text.tags import EXPECTED, mark_entities, wrong_tag
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, check_labels, mean_loss
from regard.training.ranks import Ranks
from regard.training.sources import Sources

AT_ONCE = 32
"Sentences that are tagged together while a model is judged."


class Tagging(Job):
    head, purpose, unit = "tag", "masked", "words"
    n_texts = 1

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples = Tagged(tokenizer, self.labels, config.data.max_len)
        self.objective = Tag()
        self.pad_id = tokenizer.pad_id or 0
        spans = ("span-F1", "span-precision", "span-recall")
        self.measured = spans if mark_entities(self.labels) else ("accuracy",)

    @classmethod
    def labels_in(cls, rows: Iterable[Row], config: RunConfig) -> dict[str, int]:
        counts = Counter(tag for row in rows for tag in tags_of(row))
        if (wrong := wrong_tag(counts)) is not None:
            raise UserError(f"the training data have the tag '{cut(wrong, QUOTED)}'", EXPECTED)
        check_labels(counts, "tags", "each word needs its tag; in a .conll file it is the last column")
        return dict(sorted(counts.items(), key=lambda item: (item[0] != "O", item[0])))

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> TaggedBatch:
        return collate_tagged(shards, rows, pad_id=self.pad_id)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        def reading(batch: TaggedBatch) -> tuple[float, int]:
            loss = self.objective(model, batch)
            return float(loss.total), loss.count

        mean = mean_loss(self.read(shards, ranks, reading))
        rows = [row for row in Sources(self.config).rows("valid") if row[0].strip()]
        words = [words_and_tags(row)[0] for row in ranks.share(rows)]
        groups = (words[start : start + AT_ONCE] for start in range(0, len(words), AT_ONCE))
        predicted = ranks.merge([tags for group in groups for tags in self._tags(model, group)])
        scores = tag_scores(predicted, [words_and_tags(row)[1] for row in rows])
        return Validation(mean, tuple(scores[:3]))

    def _tags(self, model: Any, rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
        read = [word_windows(self.tokenizer, words, self.config.data.max_len) for words in rows]
        every = [window.ids for windows, _ in read for window in windows]
        ids, valid = padded(np.concatenate(every), np.array([len(each) for each in every]), self.pad_id)
        tensors = (torch.from_numpy(each).to(model.device) for each in (ids, valid))
        best = iter(model(*tensors).logits.argmax(-1).tolist())  # (windows of all rows, T)
        for windows, tokens in read:
            found = list(islice(best, len(windows)))
            places = places_of(windows, tokens)
            yield ["O" if place is None else self.labels[found[place[0]][place[1]]] for place in places]
