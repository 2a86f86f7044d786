"""One step is exact: however it is cut, whatever its lengths; and a step that is no number changes nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.pairs import PairBatch
from regard.models.base import Model
from regard.models.registry import find_preset
from regard.objectives.loss import Loss
from regard.objectives.seq2seq import Seq2Seq
from regard.training.step import length_of, seed_of, step

PAD, WORDS = 30, 31
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_layers": 2, "n_decoder_layers": 2}


def make(preset: str = "transformer-small", dropout: float = 0.0) -> Model:
    torch.manual_seed(3)
    family, config = find_preset(preset)
    sizes = SIZES if preset.startswith("transformer") else {"d_model": 16, "n_layers": 1}
    small = replace(config, vocab_size=WORDS, pad_id=PAD, start_id=PAD, dropout=dropout, **sizes)
    return family.build(small).train()


def make_batch(lengths: list[tuple[int, int]], seed: int = 0) -> PairBatch:
    """Pairs of unequal lengths, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    rows = [[torch.randint(0, PAD, (n,), generator=generator) for n in pair] for pair in lengths]
    (src, src_valid), (tgt, tgt_valid) = (padded([row[side] for row in rows]) for side in (0, 1))
    start = torch.full((len(rows), 1), PAD)
    return PairBatch(
        src, src_valid, torch.cat([start, tgt[:, :-1]], 1), tgt, tgt_valid, int(tgt_valid.sum()), np.arange(len(rows))
    )


def padded(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    ids = torch.stack([torch.nn.functional.pad(row, (0, width - len(row)), value=PAD) for row in rows])
    return ids, torch.stack([torch.arange(width) < len(row) for row in rows])


def rows_of(batch: PairBatch, rows: slice) -> PairBatch:
    tgt_valid = batch.tgt_valid[rows]
    assert batch.src_valid is not None
    return PairBatch(
        batch.src[rows], batch.src_valid[rows], batch.tgt_in[rows], batch.tgt_out[rows], tgt_valid,
        int(tgt_valid.sum()), batch.rows[rows],
    )  # fmt: skip


def gradients(model: Model, batches: list[PairBatch]) -> list[Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step(model, batches, Seq2Seq(0.1), optimizer, clip=1e9, seeds=[0] * len(batches))
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("preset", ["transformer-small", "recurrent-gru-additive", "recurrent-lstm-dot"])
def test_thirty_two_are_four_times_eight(preset: str) -> None:
    generator = np.random.default_rng(0)
    model = make(preset)
    batch = make_batch([(int(a), int(b)) for a, b in generator.integers(1, 12, (32, 2))])
    whole = gradients(model, [batch])
    parts = gradients(model, [rows_of(batch, slice(i, i + 8)) for i in range(0, 32, 8)])
    assert len(whole) == len(parts) > 5
    for one, four in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, four, rtol=0, atol=1e-6)


def test_the_loss_is_the_mean_over_all_targets() -> None:
    model = make()
    short, long = make_batch([(3, 2)]), make_batch([(9, 11)], seed=1)
    objective, optimizer = Seq2Seq(0.0), torch.optim.SGD(make().parameters(), lr=0.0)
    result = step(model, [short, long], objective, optimizer, clip=1e9, seeds=[0, 0])
    total = float((objective(model, short).total + objective(model, long).total).detach())
    assert result.n_targets == 13
    assert result.loss == pytest.approx(total / 13, rel=1e-6)


def test_dropout_of_a_step_is_a_function_of_its_seeds() -> None:
    model, batch = make(dropout=0.3), make_batch([(5, 6), (4, 3)])
    runs = []
    for _ in range(2):
        torch.rand(17)  # whatever was drawn before does not matter
        runs.append(gradients(model, [batch]))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_seeds_differ_with_every_part() -> None:
    seeds = {seed_of(seed, number, part) for seed in range(5) for number in range(50) for part in range(4)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_step_without_a_number_leaves_the_weights_and_names_the_place() -> None:
    model, batch = make(), make_batch([(5, 6)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    before = [parameter.clone() for parameter in model.parameters()]

    def broken(model: Model, batch: PairBatch) -> Loss:
        loss = Seq2Seq(0.0)(model, batch)
        return Loss(loss.total * torch.tensor(float("nan")), loss.count)

    result = step(model, [batch], broken, optimizer, clip=1.0, seeds=[0])
    assert result.bad == "encoder.blocks.0.attn.q.weight"
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_long_gradient_is_clipped() -> None:
    model, batch = make(), make_batch([(5, 6)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = [parameter.clone() for parameter in model.parameters()]
    result = step(model, [batch], Seq2Seq(0.0), optimizer, clip=0.01, seeds=[0])
    assert result.norm > 0.01
    moved = sum(float((a - b).detach().square().sum()) for a, b in zip(before, model.parameters(), strict=True)) ** 0.5
    assert moved == pytest.approx(0.01, rel=1e-3)


def test_the_length_of_a_gradient_is_the_same_however_its_rows_are_dealt_out() -> None:
    gradients = [torch.randn(7, 5), torch.randn(9), torch.randn(2, 3, 4)]
    whole = length_of(gradients)
    shares = [[gradient.tensor_split([cut])[side] for gradient in gradients] for cut in (1, 2) for side in (0, 1)]
    for two in (shares[:2], shares[2:]):
        assert math.hypot(*(length_of(share) for share in two)) == pytest.approx(whole, rel=1e-14)
    assert whole == pytest.approx(float(torch.cat([gradient.flatten() for gradient in gradients]).norm()), rel=1e-6)


@pytest.mark.parametrize("p", [0.0001, 0.5])
def test_teacher_forcing_shows_the_models_own_words_as_often_as_asked(p: float) -> None:
    model, batch = make(), make_batch([(8, 40)] * 8)
    torch.manual_seed(0)
    shown = Seq2Seq(0.0, teacher_forcing=p).mix(model, batch)
    assert torch.equal(shown[:, 0], batch.tgt_in[:, 0])
    share = (shown != batch.tgt_in)[:, 1:].float().mean()
    expected = (1 - p) * (1 - 1 / PAD)  # an untrained model is right by chance
    assert abs(share - expected) < 0.12
