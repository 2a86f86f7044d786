"""Each direction sees its own side only, padding changes nothing, and layers are mixed by shares that sum to 1."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.models.base import initialise
from regard.models.elmo import Elmo, ElmoConfig, turned
from regard.weights.store import load_model, save_model

TINY = ElmoConfig(vocab_size=20, d_model=12, n_layers=2, dropout=0.0, heads=())


def tiny(config: ElmoConfig = TINY) -> Elmo:
    torch.manual_seed(0)
    model = Elmo(config)
    initialise(model, std=0.5)
    return model.eval()


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(1, 20, (3, 7), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("place", [0, 3, 6])
def test_forwards_never_sees_the_future_and_backwards_never_the_past(ids: Tensor, place: int) -> None:
    model, other = tiny(), ids.clone()
    other[:, place] = (other[:, place] + 1) % 20
    before, after = (model.reader(each).unflatten(-1, (2, -1)) for each in (ids, other))  # (1 + L, B, T, 2, D / 2)
    changed = (before != after).any(-1).all(1)  # (1 + L, T, 2): in every row
    for layer in (1, 2):
        assert changed[layer, :, 0].tolist() == [t >= place for t in range(7)]
        assert changed[layer, :, 1].tolist() == [t <= place for t in range(7)]
    assert changed[0].any(-1).nonzero()[:, 0].tolist() == [place]  # a word's own vector stands for itself


def test_a_language_model_never_sees_the_word_that_it_foresees(ids: Tensor) -> None:
    model, other = tiny(replace(TINY, heads=("two_way_lm",))), ids.clone()
    other[:, 4] = (other[:, 4] + 1) % 20
    with torch.inference_mode():
        before, after = (model(each).heads for each in (ids, other))
    assert torch.equal(before["ahead"][:, :4], after["ahead"][:, :4])  # those that come before it
    assert torch.equal(before["back"][:, 5:], after["back"][:, 5:])
    assert not torch.equal(before["ahead"][:, 4], after["ahead"][:, 4])
    assert not torch.equal(before["back"][:, 4], after["back"][:, 4])


@pytest.mark.parametrize("left", [True, False])
def test_padding_on_either_side_changes_no_vector(ids: Tensor, left: bool) -> None:
    model = tiny()
    valid = torch.arange(7) < torch.tensor([[7], [4], [1]])
    valid = valid.flip(-1) if left else valid
    padded = model.vectors(ids.masked_fill(~valid, 0), valid)
    for row in range(3):
        alone = model.vectors(ids[row, valid[row]][None])[0]
        torch.testing.assert_close(padded[row, valid[row]], alone, atol=1e-6, rtol=0)


def test_turning_a_row_twice_gives_it_back() -> None:
    valid = torch.arange(6) < torch.tensor([[6], [3], [0]])
    turn = turned(torch.zeros(3, 6, dtype=torch.long), valid)
    assert turn[1].tolist() == [2, 1, 0, 3, 4, 5]
    assert turn.gather(1, turn).tolist() == [list(range(6))] * 3


def test_the_mix_has_shares_that_sum_to_one_and_scales_by_gamma(ids: Tensor) -> None:
    model = tiny()
    torch.nn.init.normal_(model.mix.weights)
    torch.nn.init.constant_(model.mix.gamma, 2.5)
    shares, layers = model.mix.shares, model.reader(ids)
    assert shares.sum().item() == pytest.approx(1, abs=1e-6)
    expected = 2.5 * sum(share * layer for share, layer in zip(shares, layers, strict=True))
    torch.testing.assert_close(model.vectors(ids), expected)


def test_a_tagger_learns_the_mix_and_a_language_model_leaves_it(ids: Tensor) -> None:
    tagger = tiny(replace(TINY, heads=("tag",), labels=("O", "B-x")))
    tagger(ids).logits.square().sum().backward()
    assert tagger.mix.weights.grad is not None
    assert bool(tagger.mix.weights.grad.any())
    assert not any(p.requires_grad for p in tiny(replace(TINY, heads=("two_way_lm",))).mix.parameters())


@pytest.mark.parametrize("heads", [(), ("two_way_lm",), ("tag",)])
def test_what_is_saved_is_loaded_bit_by_bit(heads: tuple[str, ...], tmp_path: Path) -> None:
    labels = ("O", "B-x") if heads == ("tag",) else ()
    model = tiny(replace(TINY, heads=heads, labels=labels))  # type: ignore[arg-type]
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
