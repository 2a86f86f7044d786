"""Questions about a text: exact match and F1 of the best span over all windows."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.data.answered import AnswerBatch, Answered, answer_place, collate_answers
from regard.data.corpus import Row
from regard.data.inputs import second_text
from regard.data.labelled import text_tensors
from regard.data.shards import Shards
from regard.data.spans import best_cells, edges_of, span_table
from regard.data.windows import windows_of
from regard.evaluation.answers import answer_f1, exact_match
from regard.models.base import Model
from regard.objectives.answer import Answer
from regard.text.tokenizer import Tokenizer
from regard.training.config import RunConfig
from regard.training.jobs.job import Job, Validation, mean_loss
from regard.training.ranks import Ranks
from regard.training.sources import Sources

LONGEST = 30
"Tokens of an answer."


class Answering(Job):
    head, purpose, unit = "span", "masked", "windows"
    n_texts = 2
    measured = ("answer-F1", "exact-match")

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, labels: Mapping[str, int]) -> None:
        super().__init__(config, tokenizer, labels)
        self.examples = Answered(tokenizer, config.data.max_len)
        self.objective = Answer()
        self.pad_id = tokenizer.pad_id or 0

    def batch(self, shards: Shards, rows: np.ndarray, key: tuple[int, ...]) -> AnswerBatch:
        return collate_answers(shards, rows, pad_id=self.pad_id)

    def judge(self, model: Model, shards: Shards, ranks: Ranks) -> Validation:
        def reading(batch: AnswerBatch) -> tuple[float, int]:
            loss = self.objective(model, batch)
            return float(loss.total), loss.count

        mean = mean_loss(self.read(shards, ranks, reading))
        rows = Sources(self.config).pairs("valid", self.config.valid.sentences)
        if not rows:
            return Validation(mean)
        golds = [[row[2]] if answer_place(row) != (0, 0) else [] for row in rows]
        may_lack = not all(golds)  # where every question has an answer, none is never the best
        texts = ranks.merge([self._answer(model, row, may_lack) for row in ranks.share(rows)])
        return Validation(mean, (answer_f1(texts, golds), exact_match(texts, golds)), tuple(texts[:3]))

    def _answer(self, model: Any, row: Row, may_lack: bool) -> str:
        question, context = row[:2]
        windows = windows_of(self.tokenizer, context, question, max_len=self.config.data.max_len)
        lengths = np.array([len(window.ids) for window in windows])
        seconds = np.array([second_text(window.segments) for window in windows])
        flat = np.concatenate([window.ids for window in windows])
        tensors = text_tensors((flat, lengths), seconds, self.pad_id)
        ids, valid, segments = (None if each is None else each.to(model.device) for each in tensors)
        told = {} if segments is None else {"segments": segments}
        scores = model(ids, valid, **told).logits.float().cpu().numpy()  # (windows, T, 2)
        edges = edges_of(context, windows)
        table = span_table(windows, list(scores), edges, LONGEST)
        cells = best_cells(table, 1)
        none = float(min(score[0].sum() for score in scores)) if may_lack else -math.inf
        if not cells or float(table[cells[0]]) < none:
            return ""
        first, more = cells[0]
        return context[int(edges.starts[first]) : int(edges.ends[first + more])]
