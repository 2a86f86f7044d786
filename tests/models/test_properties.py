"""What holds for every family, whatever the text: padding, batch mates, splits and the future never matter."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from models import tiny
from regard.errors import UserError
from regard.models.base import Output

CLOSE = {"rtol": 0.0, "atol": 1e-5}
PER_TEXT = {"pooled", "classify", "next_sentence", "distil"}
"Outputs with one vector a text; all others have one a token."

model_of = cache(tiny.make)
seeds = st.integers(0, 2**16)
few = settings(max_examples=20)


def random_ids(seed: int, *shape: int) -> Tensor:
    return torch.randint(0, tiny.VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def named(out: Output) -> dict[str, Tensor]:
    tensors = {"hidden": out.hidden, **(out.heads or {"logits": out.logits})}
    return tensors if out.pooled is None else tensors | {"pooled": out.pooled}


@torch.no_grad()
def read(name: str, ids: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
    """All outputs for a text; an encoder-decoder reads `ids` and writes the same tokens backwards."""
    if name in tiny.SEQ2SEQ:
        backwards = None if valid is None else valid.flip(1)
        return named(model_of(name)(ids, ids.flip(1), valid, backwards))
    return named(model_of(name)(ids, valid))


def assert_row(
    ours: dict[str, Tensor], theirs: dict[str, Tensor], row: int, real: Tensor | slice = slice(None)
) -> None:
    """Row `row` of `ours`, at its real tokens, equals the only row of `theirs`."""
    for key, value in theirs.items():
        mine = ours[key][row] if key in PER_TEXT else ours[key][row][real]
        assert_close(mine, value[0], **CLOSE, msg=lambda m, k=key: f"{k}: {m}")


def padded(rows: list[Tensor], sides: list[str], seed: int) -> tuple[Tensor, Tensor]:
    """A rectangle with garbage where nothing is: (B, T) ids and (B, T) valid."""
    width = max(map(len, rows)) + 1  # every row has padding
    ids, valid = random_ids(seed + 1, len(rows), width), torch.zeros(len(rows), width, dtype=torch.bool)
    for b, (row, side) in enumerate(zip(rows, sides, strict=True)):
        place = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
        ids[b, place], valid[b, place] = row, True
    return ids, valid


# --- P1, P3: padding and batch mates --------------------------------------------------------------------------------


@few
@given(st.lists(st.tuples(st.integers(1, 8), st.sampled_from(["left", "right"])), min_size=1, max_size=3), seeds)
@pytest.mark.parametrize("name", tiny.TEXTS)
def test_padding_on_either_side_with_garbage_in_it_changes_nothing(name: str, shape: Any, seed: int) -> None:
    rows = [random_ids(seed + i, length) for i, (length, _) in enumerate(shape)]
    ids, valid = padded(rows, [side for _, side in shape], seed)
    ours = read(name, ids, valid)
    for b, row in enumerate(rows):
        assert_row(ours, read(name, row[None]), b, valid[b])


@few
@given(st.lists(st.tuples(st.integers(1, 8), st.sampled_from(["left", "right"])), min_size=1, max_size=3), seeds)
@pytest.mark.parametrize("name", tiny.SEQ2SEQ)
@torch.no_grad()
def test_padding_of_source_and_target_changes_nothing(name: str, shape: Any, seed: int) -> None:
    model = model_of(name)
    sources = [random_ids(seed + i, length) for i, (length, _) in enumerate(shape)]
    targets = [random_ids(seed + i + 9, length) for i, (length, _) in enumerate(reversed(shape))]
    sides = [side for _, side in shape]
    src, src_valid = padded(sources, sides, seed)
    tgt, tgt_valid = padded(targets, sides[::-1], seed + 5)
    ours = named(model(src, tgt, src_valid, tgt_valid))
    for b in range(len(shape)):
        theirs = named(model(sources[b][None], targets[b][None]))
        assert_row(ours, theirs, b, tgt_valid[b])


@few
@given(rows=st.integers(2, 4), length=st.integers(1, 8), seed=seeds)
@pytest.mark.parametrize("name", tiny.TEXTS | tiny.SEQ2SEQ)
def test_neither_the_order_of_the_batch_nor_the_mates_matter(name: str, rows: int, length: int, seed: int) -> None:
    ids = random_ids(seed, rows, length)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    ours, shuffled = read(name, ids), read(name, ids[order])
    for key, value in ours.items():
        assert_close(shuffled[key], value[order], **CLOSE, msg=lambda m, k=key: f"{k}: {m}")
    assert_row(ours, read(name, ids[:1]), 0)


@pytest.mark.parametrize("name", tiny.IMAGES)
@torch.no_grad()
def test_neither_the_order_of_the_images_nor_the_mates_matter(name: str) -> None:
    pixels = torch.randn(3, 3, 12, 16, generator=torch.Generator().manual_seed(0))
    ours, shuffled = named(model_of(name)(pixels)), named(model_of(name)(pixels[[2, 0, 1]]))
    for key, value in ours.items():
        assert_close(shuffled[key], value[[2, 0, 1]], **CLOSE, msg=lambda m, k=key: f"{k}: {m}")
    assert_row(ours, named(model_of(name)(pixels[:1])), 0)


def test_the_class_of_a_text_is_read_off_its_last_real_token() -> None:
    model = tiny.make("gpt2", head="classify", labels=("x", "y"))
    rows = [random_ids(1, 5), random_ids(2, 3), random_ids(3, 4)]
    ids, valid = padded(rows, ["right", "left", "right"], 0)
    ours = model(ids, valid).logits
    assert ours.shape == (3, 2)
    for b, row in enumerate(rows):
        assert_close(ours[b], model(row[None]).logits[0], **CLOSE)


# --- P2: cached is uncached -----------------------------------------------------------------------------------------


def pieces(cuts: set[int], length: int) -> Iterator[slice]:
    edges = sorted({0, length} | {cut for cut in cuts if cut < length})
    yield from (slice(a, b) for a, b in pairwise(edges))


@few
@given(length=st.integers(1, 12), cuts=st.sets(st.integers(1, 11)), seed=seeds)
@pytest.mark.parametrize("name", tiny.DECODERS)
@torch.no_grad()
def test_cached_decoding_equals_uncached_for_any_split(name: str, length: int, cuts: set[int], seed: int) -> None:
    model, ids = model_of(name), random_ids(seed, 2, length)
    theirs, state = model(ids).logits, model.new_state(2, length)
    for piece in pieces(cuts, length):
        assert_close(model.step(ids[:, piece], state), theirs[:, piece.stop - 1], **CLOSE)
        assert state.lengths.tolist() == [piece.stop] * 2


@few
@given(length=st.integers(1, 12), cuts=st.sets(st.integers(1, 11)), seed=seeds)
@pytest.mark.parametrize("name", tiny.SEQ2SEQ)
@torch.no_grad()
def test_cached_translation_equals_uncached_for_any_split(name: str, length: int, cuts: set[int], seed: int) -> None:
    model, tgt = model_of(name), random_ids(seed, 2, length)
    src, valid = padded([random_ids(seed + 1, 5), random_ids(seed + 2, 3)], ["right", "left"], seed)
    theirs = model(src, tgt, valid).logits
    state = model.new_state(model.encode(src, valid), valid, length)
    for piece in pieces(cuts, length):
        assert_close(model.step(tgt[:, piece], state), theirs[:, piece.stop - 1], **CLOSE)


# --- P4: causal means causal ----------------------------------------------------------------------------------------


@few
@given(length=st.integers(2, 8), seed=seeds, data=st.data())
@pytest.mark.parametrize("name", tiny.DECODERS | tiny.SEQ2SEQ)
@torch.no_grad()
def test_a_token_never_changes_what_came_before_it(name: str, length: int, seed: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, length - 1))
    ids, src = random_ids(seed, 1, length), random_ids(seed + 1, 1, 5)
    changed = ids.clone()
    changed[0, place] = (ids[0, place] + 1 + seed % (tiny.VOCAB - 1)) % tiny.VOCAB
    model = model_of(name)
    before, after = (model(src, x) if name in tiny.SEQ2SEQ else model(x) for x in (ids, changed))
    assert torch.equal(before.hidden[:, :place], after.hidden[:, :place])
    assert torch.equal(before.logits[:, :place], after.logits[:, :place])
    assert not torch.allclose(before.hidden[:, place], after.hidden[:, place])


@pytest.mark.parametrize("name", tiny.ENCODERS)
def test_an_encoder_sees_both_sides(name: str) -> None:
    ids = random_ids(0, 1, 5)
    changed = ids.clone()
    changed[0, 2] = (ids[0, 2] + 1) % tiny.VOCAB
    difference = (read(name, ids)["hidden"] - read(name, changed)["hidden"]).abs().amax(-1)[0]
    assert (difference > 1e-4).all()


# --- order and place ------------------------------------------------------------------------------------------------


def test_without_positions_outputs_only_permute() -> None:
    plain, placed = tiny.make("bert", position="none"), model_of("bert")
    ids, order = random_ids(0, 2, 9), torch.randperm(9, generator=torch.Generator().manual_seed(0))
    assert_close(plain(ids[:, order]).hidden, plain(ids).hidden[:, order], **CLOSE)
    assert (placed(ids[:, order]).hidden - placed(ids).hidden[:, order]).abs().max() > 0.1


def test_a_window_keeps_far_tokens_out_of_one_layer() -> None:
    model, ids = tiny.make("bert local", n_layers=1), random_ids(0, 1, 9)
    changed = ids.clone()
    changed[0, 4] = (ids[0, 4] + 1) % tiny.VOCAB
    same = (model(ids).hidden == model(changed).hidden).all(-1)[0]
    assert same.tolist() == [abs(place - 4) > 2 for place in range(9)]


def test_a_patch_outside_the_window_does_not_influence_a_patch() -> None:
    """One layer, a window of one patch, a grid of 3 x 4; the class token, at 0, sees all."""
    model = model_of("vit local")
    pixels = torch.randn(1, 3, 12, 16, generator=torch.Generator().manual_seed(0))
    for row in range(3):
        for column in range(4):
            changed = pixels.clone()
            changed[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 1.0
            same = (model(pixels).hidden == model(changed).hidden).all(-1)[0].tolist()
            near = [abs(r - row) <= 1 and abs(c - column) <= 1 for r in range(3) for c in range(4)]
            assert same == [False, *(not flag for flag in near)]


def test_segments_tell_two_sentences_apart() -> None:
    model, ids = model_of("bert"), random_ids(0, 1, 6)
    second = torch.tensor([[0, 0, 0, 1, 1, 1]])
    assert torch.equal(model(ids).hidden, model(ids, segments=torch.zeros_like(ids)).hidden)
    assert (model(ids).hidden - model(ids, segments=second).hidden).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "bart"])
def test_a_text_longer_than_the_learned_positions_is_the_users_error(name: str) -> None:
    ids = random_ids(0, 1, tiny.LENGTH + 1)
    assert read(name, ids[:, 1:])
    with pytest.raises(UserError, match=f"{tiny.LENGTH + 1} tokens"):
        read(name, ids)


def test_an_image_of_another_size_is_the_users_error() -> None:
    with pytest.raises(UserError, match="shape"):
        model_of("vit")(torch.zeros(1, 3, 16, 12))


# --- any precision, any device --------------------------------------------------------------------------------------


def run(name: str, model: Any) -> Output:
    """One fixed batch, in the model's own precision and on its own device."""
    some = next(model.parameters())
    if name in tiny.IMAGES:
        return model(torch.linspace(-2, 2, 2 * 3 * 12 * 16).view(2, 3, 12, 16).to(some))
    ids = random_ids(0, 2, 7).to(some.device)
    return model(ids, ids.flip(1)) if name in tiny.SEQ2SEQ else model(ids)


@pytest.mark.parametrize("name", tiny.ALL)
@torch.no_grad()
def test_every_family_runs_in_any_precision_and_on_meta(name: str) -> None:
    theirs = run(name, model_of(name))
    exact, half, nowhere = (run(name, tiny.make(name).to(to)) for to in (torch.float64, torch.bfloat16, "meta"))
    for key, value in named(theirs).items():
        assert_close(named(exact)[key].float(), value, **CLOSE)
        assert named(exact)[key].dtype == torch.float64
        assert_close(named(half)[key].float(), value, rtol=0.0, atol=0.15)
        assert named(half)[key].dtype == torch.bfloat16
        assert named(nowhere)[key].shape == value.shape


@pytest.mark.parametrize("name", tiny.ALL)
def test_every_family_trains_under_autocast_after_it_was_used_for_inference(name: str) -> None:
    model = tiny.make(name)
    with torch.inference_mode():
        theirs = run(name, model)
    with torch.autocast("cpu", torch.bfloat16):
        ours = run(name, model)
    assert_close(ours.logits.float(), theirs.logits, rtol=0.0, atol=0.15)
    ours.logits.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# --- every parameter takes part -------------------------------------------------------------------------------------


def assert_all_learn(model: Any, outputs: list[Output]) -> None:
    """Every parameter has a gradient, and a real one, but for key biases: softmax does not see what all keys share."""
    torch.manual_seed(0)
    tensors = [tensor for out in outputs for tensor in named(out).values()]
    sum((tensor * torch.randn_like(tensor)).sum() for tensor in tensors).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith(".k.bias"):
            assert parameter.grad.abs().max() > 1e-6, name


@pytest.mark.parametrize("name", tiny.ALL)
def test_gradients_reach_every_parameter(name: str) -> None:
    model, ids = tiny.make(name).train(), random_ids(0, 2, 9)
    if name in tiny.IMAGES:
        assert_all_learn(model, [model(torch.randn(2, 3, 12, 16))])
    elif name in tiny.SEQ2SEQ:
        assert_all_learn(model, [model(ids, ids.flip(1))])
    else:
        assert_all_learn(model, [model(ids)])


def test_the_electra_pair_shares_one_token_table_and_trains_all_of_it() -> None:
    pair, ids = tiny.make_electra_pair(), random_ids(0, 2, 9)
    table = pair.discriminator.encoder.embed.token.weight
    assert pair.generator.encoder.embed.token.weight is table
    at = torch.zeros(2, 9, dtype=torch.bool)
    at[:, 2] = True
    found = pair(ids, ids.flip(1), at, torch.tensor([0.2, 0.8]))
    outputs = [found.guess, found.verdict]
    assert outputs[0].logits.shape == (2, tiny.VOCAB)  # of what is hidden
    assert outputs[1].logits.shape == (2, 9)  # of every token
    for out in outputs:  # each half pulls at the table
        (gradient,) = torch.autograd.grad(out.logits.square().sum(), table, retain_graph=True)
        assert gradient.abs().max() > 1e-6
    assert_all_learn(pair, outputs)


def test_an_electra_pair_whose_tables_cannot_be_one_is_refused() -> None:
    for wrong in ({"d_embed": 6}, {"vocab_size": tiny.VOCAB + 1}):
        with pytest.raises(UserError, match="token table"):
            tiny.make_electra_pair(**wrong)


@pytest.mark.parametrize("name", ["gpt2", "vit"])
def test_a_head_that_classifies_needs_labels(name: str) -> None:
    with pytest.raises(UserError, match="labels"):
        tiny.config_of(name, head="classify", labels=())
