"""How good is it now? Loss on all validation sentences, BLEU and chrF on greedy translations of some."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from regard.data.batches import Position, Steps
from regard.data.pairs import collate
from regard.data.shards import Shards
from regard.decoding.search import DONE, greedy
from regard.evaluation.score import Score
from regard.evaluation.translation import bleu, chrf
from regard.objectives.seq2seq import Seq2Seq
from regard.text.tokenizer import Tokenizer
from regard.training.ranks import ALONE, Ranks

BATCH_TOKENS = 6_000


@dataclass(frozen=True)
class Validation:
    loss: float
    bleu: Score | None = None
    chrf: Score | None = None
    samples: tuple[str, ...] = ()

    @property
    def goodness(self) -> float:
        """What the best model has most of: BLEU, or a small loss where there is none."""
        return self.bleu.value if self.bleu else -self.loss


@torch.inference_mode()
def validate(
    model: Any,
    shards: Shards,
    pairs: Sequence[tuple[str, ...]],
    source: Tokenizer,
    target: Tokenizer,
    *,
    ranks: Ranks = ALONE,
) -> Validation:
    """The loss of all `shards`, and the scores of translating the `pairs`; each rank takes its share of both."""
    was_training = model.training
    model.eval()
    steps = Steps(shards.lengths, budget=BATCH_TOKENS, seed=0)
    total, count = 0.0, 0.0
    for rows, _ in ranks.share([*islice(steps.steps(Position()), steps.steps_in_epoch(0))]):
        batch = ranks.placed(collate(shards, rows, pad_id=model.config.pad_id, start_id=model.config.start_id))
        loss = Seq2Seq(label_smoothing=0.0)(model, batch)
        total, count = total + float(loss.total), count + loss.count
    own = translate_texts(model, [pair[0] for pair in ranks.share(pairs)], source, target)
    model.train(was_training)
    total, count = ranks.sum(total, count)
    texts = ranks.merge(own)
    mean, references = total / max(count, 1), [pair[1] for pair in pairs]
    if not texts:
        return Validation(mean)
    return Validation(mean, bleu(texts, references), chrf(texts, references), tuple(texts[:3]))


@torch.inference_mode()
def translate_texts(model: Any, texts: Sequence[str], source: Tokenizer, target: Tokenizer) -> list[str]:
    """Greedy translations, in order; alike lengths go together."""
    rows = [ids[: model.config.max_len] for ids in source.encode_ids(list(texts))]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]), reverse=True)
    results = [""] * len(rows)
    while order:
        size = max(1, BATCH_TOKENS // len(rows[order[0]]) // 2)
        batch, order = order[:size], order[size:]
        for i, text in zip(batch, _greedy_texts(model, [rows[i] for i in batch], target), strict=True):
            results[i] = text
    return results


def _greedy_texts(model: Any, rows: list[list[int]], target: Tokenizer) -> list[str]:
    width = max(map(len, rows))
    device = model.device
    src = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=device)  # (B, S)
    valid = torch.tensor([[True] * len(row) + [False] * (width - len(row)) for row in rows], device=device)
    limit = 2 * width + 10
    state = model.new_state(model.encode(src, valid), valid, limit + 1)
    first = torch.full((len(rows), 1), model.config.start_id, device=device)

    def step(ids: torch.Tensor, state: Any, valid: torch.Tensor | None) -> torch.Tensor:
        scores = model.step(ids, state, valid)
        scores[:, model.config.pad_id] = -torch.inf  # padding is no word
        return scores

    written = list(greedy(step, state, first, limit=limit, end_ids=model.config.eos_ids))
    ids = torch.stack(written, dim=1).tolist()
    return [target.decode([token for token in row if token != DONE]) for row in ids]
