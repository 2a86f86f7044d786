"""Transformer-XL: what is looked back at counts as if it had just been read, and is not learnt from."""

import pytest
import torch

from models.tiny import DECODERS, VOCAB, make
from regard.errors import UserError

RELATIVE = {"position": "relative", "n_buckets": 8, "max_distance": 12, "layout": "gpt2"}


def text(n_rows: int = 3, n_tokens: int = 20) -> torch.Tensor:
    return torch.randint(VOCAB, (n_rows, n_tokens), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [*DECODERS, "relative"])
@pytest.mark.parametrize("n_before", [1, 7, 19])
@pytest.mark.parametrize("several", [False, True])
def test_a_piece_that_looks_back_is_the_end_of_the_whole(name: str, n_before: int, several: bool) -> None:
    model, ids = make("gpt2", **RELATIVE) if name == "relative" else make(name), text()
    documents = torch.tensor([[0] * 5 + [1] * 15, [0] * 20, [0] * 12 + [1] * 4 + [2] * 4]) if several else None
    with torch.inference_mode():
        whole = model(ids, documents=documents)
        piece = model(ids, documents=documents, n_before=n_before)
    torch.testing.assert_close(piece.hidden, whole.hidden[:, n_before:], atol=1e-5, rtol=0)
    torch.testing.assert_close(piece.logits, whole.logits[:, n_before:], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("n_before", [0, 40])
def test_texts_do_not_see_each_other_through_a_narrow_window(n_before: int) -> None:
    """More than 64 keys, so that the window goes piece by piece."""
    model, ids = make("gpt2 local", max_len=200), text(2, 160)
    documents = (torch.arange(160) >= 100).long().expand(2, -1)
    with torch.inference_mode():
        together = model(ids, documents=documents, n_before=n_before).hidden[:, 100 - n_before :]
        torch.testing.assert_close(together, model(ids[:, 100:]).hidden, atol=1e-5, rtol=0)


@pytest.mark.parametrize("n_before", [-1, 20, 30])
def test_there_must_be_something_after_what_is_looked_back_at(n_before: int) -> None:
    with pytest.raises(UserError, match=f"n_before is {n_before} of 20"):
        make("llama")(text(), n_before=n_before)


def test_a_model_that_is_made_for_running_looks_back_to_the_same_numbers() -> None:
    ids = text()
    with torch.inference_mode():
        expected = make("llama")(ids, n_before=8).hidden
        torch.testing.assert_close(make("llama").fuse()(ids, n_before=8).hidden, expected, atol=1e-5, rtol=0)


def test_no_gradient_goes_to_what_was_before() -> None:
    model = make("llama")
    ids = torch.cat([torch.arange(10), torch.arange(10, 20)])[None]
    model(ids, n_before=10).hidden.square().sum().backward()
    learnt = model.decoder.embed.token.weight.grad.abs().sum(1) > 0
    assert not learnt[:10].any()
    assert learnt[10:20].all()
    model.zero_grad()
    model(ids).hidden[:, 10:].square().sum().backward()
    assert (model.decoder.embed.token.weight.grad.abs().sum(1) > 0)[:20].all()  # without the memory it would
