"""The loss of negative sampling has the gradient that the authors' program writes out by hand."""

from typing import Literal

import numpy as np
import pytest
import torch

from regard.data.company import CompanyBatch
from regard.models.wordvectors import WordVectorModel, WordVectorsConfig
from regard.objectives.company import NegativeSampling


def batch_of(kind: str) -> CompanyBatch:
    chance = np.random.default_rng(1)
    ids, negatives = torch.from_numpy(chance.integers(0, 9, (3, 5))), torch.from_numpy(chance.integers(0, 9, 4))
    near = torch.from_numpy(chance.random((3, 5, 5)) < 0.4)
    near[:, range(5), range(5)] = False
    near[0, 2] = False  # a word without company
    asked = near.sum(-1) if kind == "skip_gram" else near.any(-1)
    weights = asked[..., None] * torch.from_numpy(chance.random((3, 5, 4))).float()
    return CompanyBatch(ids, near, negatives, weights, int(asked.sum()), np.arange(3))


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def by_hand(model: WordVectorModel, batch: CompanyBatch, kind: str) -> tuple[float, np.ndarray, np.ndarray]:
    """One question at a time: g = truth - sigmoid(score), as in word2vec.c."""
    v, c = (t.detach().double().numpy() for t in (model.vectors.weight, model.contexts))
    total, dv, dc = 0.0, np.zeros_like(v), np.zeros_like(c)

    def ask(inputs: list[int], word: int, truth: int, weight: float) -> None:
        nonlocal total
        h = v[inputs].mean(0)
        p = sigmoid(h @ c[word])
        total -= weight * np.log(p if truth else 1 - p)
        g = weight * (p - truth)
        dc[word] += g * h
        for each in inputs:
            dv[each] += g * c[word] / len(inputs)

    for row in range(3):
        ids = batch.ids[row].tolist()
        for i in range(5):
            near = [ids[j] for j in range(5) if batch.near[row, i, j]]
            inputs = [ids[i]] if kind == "skip_gram" else near
            if near:
                for word in near if kind == "skip_gram" else [ids[i]]:
                    ask(inputs, word, 1, 1.0)
                for k, word in enumerate(batch.negatives.tolist()):
                    ask(inputs, word, 0, float(batch.weights[row, i, k]))
    return total, dv, dc


@pytest.mark.parametrize("kind", ["skip_gram", "cbow"])
def test_the_gradient_is_the_one_written_by_hand(kind: Literal["skip_gram", "cbow"]) -> None:
    torch.manual_seed(0)
    model = WordVectorModel(WordVectorsConfig(vocab_size=9, d_model=6, kind=kind))
    torch.nn.init.normal_(model.contexts)
    batch = batch_of(kind)
    loss = NegativeSampling()(model, batch)
    loss.total.backward()  # type: ignore[no-untyped-call]
    total, dv, dc = by_hand(model, batch, kind)
    assert loss.total.item() == pytest.approx(total, rel=1e-5)
    assert loss.count == batch.n_targets
    assert model.vectors.weight.grad is not None
    assert model.contexts.grad is not None
    np.testing.assert_allclose(model.vectors.weight.grad.numpy(), dv, atol=1e-5)
    np.testing.assert_allclose(model.contexts.grad.numpy(), dc, atol=1e-5)


def test_who_has_nothing_to_do_changes_nothing() -> None:
    model = WordVectorModel(WordVectorsConfig(vocab_size=9, d_model=6))
    loss = NegativeSampling()(model, batch_of("skip_gram").without_targets())
    assert loss.total.item() == 0
    assert loss.count == 0
