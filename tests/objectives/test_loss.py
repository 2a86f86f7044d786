"""Losses are sums over real targets, equal to the closed form."""

from unittest.mock import patch

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.layers.head import Scores
from regard.models.transformer import Transformer, TransformerConfig
from regard.objectives import loss as loss_module
from regard.objectives.loss import chunked_cross_entropy, cross_entropy, sampled_cross_entropy


@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 7), st.sampled_from([0.0, 0.1, 0.4]), st.integers(0, 99))
def test_label_smoothing_is_its_closed_form(rows: int, length: int, words: int, smoothing: float, seed: int) -> None:
    torch.manual_seed(seed)
    logits, targets = torch.randn(rows, length, words), torch.randint(0, words, (rows, length))
    valid = torch.rand(rows, length) < 0.7
    log_p = logits.double().log_softmax(-1)
    truth = (1 - smoothing) * torch.nn.functional.one_hot(targets, words) + smoothing / words
    theirs = -(truth * log_p).sum(-1)[valid].sum()
    assert_close(cross_entropy(logits, targets, valid, smoothing).double(), theirs, rtol=1e-5, atol=1e-5)


def test_no_real_target_is_zero_and_not_nan() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3, dtype=torch.bool), 0.1)
    loss.backward()
    assert loss == 0
    assert torch.isfinite(logits.grad).all()


@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(2, 9), st.sampled_from([0.0, 0.1]), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_pieces_give_the_loss_and_the_gradients_of_the_whole(
    rows: int, length: int, words: int, smoothing: float, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    targets, valid = torch.randint(0, words, (rows, length)), torch.rand(rows, length) < 0.7
    found = []
    parts = [torch.randn(rows, length, 4), torch.randn(words, 4), torch.randn(words)]
    for twin in ("whole", "pieces"):
        x, weight, b = (part.clone().requires_grad_() for part in parts)
        scores = Scores(x, weight, b if bias else None)
        with patch.object(loss_module, "CHUNK_NUMBERS", 1), patch.object(loss_module, "MIN_ROWS", 2):
            if twin == "whole":
                loss = cross_entropy(scores.dense(), targets, valid, smoothing)
            else:
                loss = chunked_cross_entropy(scores, targets, valid, smoothing)
        (3 * loss).backward()
        found.append((loss.detach(), x.grad, weight.grad, b.grad))
    assert_close(*found, rtol=1e-5, atol=1e-5)


@given(st.integers(1, 3), st.integers(1, 5), st.integers(2, 9), st.booleans(), st.integers(0, 99))
def test_every_word_drawn_once_gives_the_loss_and_the_gradients_of_all_words(
    rows: int, length: int, words: int, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    targets, valid = torch.randint(0, words, (rows, length)), torch.rand(rows, length) < 0.7
    parts = [torch.randn(rows, length, 4), torch.randn(words, 4), torch.randn(words)]
    found = []
    for drawn in (None, torch.randperm(words)):
        x, weight, b = (part.clone().requires_grad_() for part in parts)
        scores = Scores(x, weight, b if bias else None)
        if drawn is None:
            loss = cross_entropy(scores.dense(), targets, valid, 0.0)
        else:
            loss = sampled_cross_entropy(scores, targets, valid, drawn, torch.ones(words))
        loss.backward()
        found.append((loss.detach(), x.grad, weight.grad, b.grad))
    assert_close(*found, rtol=1e-5, atol=1e-5)


def test_words_drawn_unevenly_stand_for_all() -> None:
    torch.manual_seed(0)
    words, n_drawn = 50, 4000
    scores = Scores(torch.randn(4, 6, 8), torch.randn(words, 8), None)
    targets, valid = torch.randint(0, words, (4, 6)), torch.ones(4, 6, dtype=torch.bool)
    shares = torch.rand(words).softmax(-1)
    drawn = shares.multinomial(n_drawn, replacement=True)
    found = sampled_cross_entropy(scores, targets, valid, drawn, shares[drawn] * n_drawn)
    assert_close(found, cross_entropy(scores.dense(), targets, valid, 0.0), rtol=0.01, atol=0)


def test_training_asks_for_pieces_and_reading_does_not() -> None:
    model = Transformer(TransformerConfig(vocab_size=16, pad_id=15, start_id=15, d_model=8, d_ff=8, n_heads=2))
    ids = torch.randint(0, 15, (2, 3))
    scores = model(ids, ids).scores
    assert isinstance(scores, Scores)
    with torch.no_grad():
        out = model(ids, ids)
    assert isinstance(out.scores, torch.Tensor)
    assert not out.logits.requires_grad
