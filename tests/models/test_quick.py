"""The plain functions that a fused network goes through give what its modules give: every family, every weight."""

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.testing import assert_close

from models import tiny
from regard.layers.block import Block
from regard.layers.encoder import Stack
from regard.layers.half import HalfWeight
from regard.layers.int8 import Int8Weight
from regard.layers.native import CHOICE, native
from regard.layers.quick import Quick
from regard.weights.store import load_model, save_model

CLOSE = {"rtol": 0.0, "atol": 1e-5}
CROSSED = ("perceiver",)
"What it looks at comes with each call, so that nothing is made ready for it: the modules read."


def stacks(model: Any) -> list[Stack]:
    return [module for module in model.modules() if isinstance(module, Stack)]


@contextmanager
def by_modules(model: Any) -> Iterator[None]:
    kept = {stack: stack.quick for stack in stacks(model)}
    assert all(isinstance(quick, Quick) for quick in kept.values())
    for stack in kept:
        stack.quick = None
    yield
    for stack, quick in kept.items():
        stack.quick = quick


@contextmanager
def counted(model: Any) -> Iterator[list[str]]:
    """Which blocks are called as modules."""
    called: list[str] = []
    forwards = {}
    for stack in stacks(model):
        for block in stack.blocks:
            forwards[block] = block.forward
            block.forward = lambda *args, block=block: (called.append("block"), forwards[block](*args))[1]
    yield called
    for block in forwards:
        del block.forward


def written(model: Any, pieces: list[Tensor], valid: list[Tensor | None]) -> list[Tensor]:
    """The scores after each piece of text; an encoder-decoder reads the first piece too."""
    n_rows = len(pieces[0])
    if hasattr(model, "encode"):
        state = model.new_state(model.encode(pieces[0], valid[0]), valid[0], tiny.LENGTH)
    else:
        state = model.new_state(n_rows, tiny.LENGTH)
    found = [model.step(ids, state, mask) for ids, mask in zip(pieces, valid, strict=True)]
    state.reorder(torch.tensor([n_rows - 1] * 3))
    return [*found, model.step(pieces[0][-1:, :1].repeat(3, 1), state)]


@settings(max_examples=8)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(1, 3), st.integers(0, 2**16), st.booleans())
@pytest.mark.parametrize("name", tiny.DECODERS | tiny.SEQ2SEQ)
@torch.inference_mode()
def test_every_decoder_writes_as_its_modules_do(
    name: str, lengths: list[int], n_rows: int, seed: int, ragged: bool
) -> None:
    torch.manual_seed(seed)
    model = tiny.make(name).fuse()
    pieces = [torch.randint(1, tiny.VOCAB - 1, (n_rows, length)) for length in lengths]
    valid: list[Tensor | None] = [None for _ in pieces]
    if ragged:
        valid[0] = torch.arange(lengths[0]) >= torch.randint(0, lengths[0], (n_rows, 1))
    with counted(model) as called:
        ours = written(model, pieces, valid)
    assert not called
    with by_modules(model):
        theirs = written(model, pieces, valid)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", [name for name in tiny.ENCODERS | tiny.IMAGES if name not in CROSSED])
@torch.inference_mode()
def test_every_encoder_reads_as_its_modules_do(name: str) -> None:
    model = tiny.make(name).fuse()
    torch.manual_seed(1)
    if name in tiny.IMAGES:
        given: tuple[Tensor, ...] = (torch.randn(2, model.config.channels, *model.config.image_size),)
    else:
        given = torch.randint(1, tiny.VOCAB, (3, 9)), torch.arange(9) < torch.tensor([[9], [4], [1]])
    with counted(model) as called:
        ours = model(*given).hidden
    assert not called
    with by_modules(model):
        theirs = model(*given).hidden
    real = slice(None) if name in tiny.IMAGES else given[1]
    assert_close(ours[real], theirs[real], **CLOSE)


@pytest.mark.parametrize("weight", [HalfWeight, Int8Weight, torch.bfloat16])
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5 v1.1"])
@torch.inference_mode()
def test_shorter_weights_give_the_same_either_way(tmp_path: Path, name: str, weight: Any) -> None:
    save_model(tiny.make(name), tmp_path)
    model: Any = load_model(tmp_path, dtype=weight).fuse()
    pieces = [torch.tensor([[3, 9, 4], [5, 1, 7]]), torch.tensor([[2], [8]])]
    ours = written(model, pieces, [None, None])
    with by_modules(model):
        theirs = written(model, pieces, [None, None])
    # In C a sum has another order; a millionth may turn one rounding to eight bits, which is a hundredth in the end.
    compiled = weight is Int8Weight and stacks(model)[0].quick.native is not None
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, **({"rtol": 0.0, "atol": 3e-2} if compiled else CLOSE))


@pytest.mark.parametrize("weight", [HalfWeight, Int8Weight])
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian"])
@torch.inference_mode()
def test_without_the_library_shorter_weights_give_the_same_either_way(
    tmp_path: Path, name: str, weight: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(tiny.make(name), tmp_path)
    monkeypatch.setenv(CHOICE, "off")
    native.cache_clear()
    try:
        model: Any = load_model(tmp_path, dtype=weight).fuse()
        assert all(stack.quick.native is None for stack in stacks(model))
        pieces = [torch.tensor([[3, 9, 4], [5, 1, 7]]), torch.tensor([[2], [8]])]
        ours = written(model, pieces, [None, None])
        with by_modules(model):
            theirs = written(model, pieces, [None, None])
    finally:
        native.cache_clear()
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, **CLOSE)


@torch.inference_mode()
def test_a_hook_on_any_module_is_called() -> None:
    model, ids = tiny.make("gpt2").fuse(), torch.tensor([[3, 9, 4]])
    plain, seen = model(ids).logits, []
    hook = model.decoder.blocks[1].ffn.register_forward_hook(lambda *_: seen.append("after"))
    before = model.decoder.norm.register_forward_pre_hook(lambda *_: seen.append("before"))
    assert_close(model(ids).logits, plain, **CLOSE)
    assert seen == ["after", "before"]
    hook.remove(), before.remove()
    with counted(model) as called:
        model(ids)
    assert not called


@pytest.mark.parametrize("register", [register_module_forward_hook, register_module_forward_pre_hook])
@torch.inference_mode()
def test_a_hook_on_all_modules_is_called(register: Any) -> None:
    model, seen = tiny.make("gpt2").fuse(), []
    hook = register(lambda module, *_: seen.append(type(module)))
    model(torch.tensor([[3, 9, 4]]))
    hook.remove()
    assert seen.count(Block) == model.config.n_layers


def test_training_and_gradients_go_through_the_modules() -> None:
    model, ids = tiny.make("gpt2").fuse(), torch.tensor([[3, 9, 4]])
    with counted(model) as called:
        assert model(ids).logits.requires_grad
        with torch.no_grad():
            model.train()(ids)
    assert len(called) == 2 * model.config.n_layers


@cache
def in_eight_bits(name: str) -> Any:
    """Of widths that vectors of the CPU divide: what is left over would be computed another way."""
    wide = {"d_model": 64, "d_ff": 128, "d_head": 16} | (
        {"d_decoder_ff": 128, "n_decoder_heads": 4} if name == "marian" else {}
    )
    with TemporaryDirectory() as folder:
        save_model(tiny.make(name, **wide), folder)
        return load_model(folder, dtype=Int8Weight).fuse()


@settings(max_examples=6)
@given(st.lists(st.integers(1, 7), min_size=2, max_size=4), st.integers(0, 2**16))
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5 v1.1"])
@torch.inference_mode()
def test_in_eight_bits_a_text_is_the_same_to_the_bit_in_any_company_and_in_any_pieces(
    name: str, lengths: list[int], seed: int
) -> None:
    model = in_eight_bits(name)
    torch.manual_seed(seed)
    rows = [torch.randint(1, tiny.VOCAB - 1, (length,)) for length in lengths]
    width = max(lengths)
    ids = torch.stack([torch.nn.functional.pad(row, (0, width - len(row)), value=1) for row in rows])
    valid = torch.arange(width) < torch.tensor(lengths)[:, None]
    last = torch.randint(1, tiny.VOCAB - 1, (len(rows), 1))
    together = written(model, [ids, last], [valid, None])
    for i, row in enumerate(rows):
        alone = written(model, [row[None], last[i : i + 1]], [None, None])
        assert torch.equal(alone[0][0], together[0][i])
        assert torch.equal(alone[1][0], together[1][i])
        if not hasattr(model, "encode"):  # which would read another source
            pieces = written(model, [*row[None].split(1, 1), last[i : i + 1]], [None] * (len(row) + 1))
            assert torch.equal(pieces[-2][0], together[1][i])


def after(change: Callable[[Any], Any], name: str) -> tuple[Tensor, Tensor]:
    """The scores of a fused network after a change, by its functions and by its modules."""
    model = change(tiny.make(name).fuse())
    pieces: list[Tensor] = [torch.tensor([[3, 9, 4], [5, 1, 7]]), torch.tensor([[2], [8]])]
    with torch.inference_mode():
        with counted(model) as called:
            ours = written(model, pieces, [None, None])
        assert not called
        with by_modules(model):
            return ours[-1], written(model, pieces, [None, None])[-1]


@torch.no_grad()
def grown(model: Any) -> Any:
    for parameter in model.parameters():
        parameter.mul_(1.5)
    return model


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5"])
def test_weights_that_are_changed_are_seen(name: str) -> None:
    assert_close(*after(grown, name), **CLOSE)


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_goes_by_its_own_weights(name: str, copied: Callable[[Any], Any]) -> None:
    assert_close(*after(lambda model: grown(copied(model)), name), **CLOSE)
    first, second = (
        after(lambda model: (grown(copied(model)), model)[1], name)[0],
        after(lambda model: model, name)[0],
    )
    assert_close(first, second, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_weights_of_another_type_are_settled_anew(name: str, dtype: torch.dtype) -> None:
    ours, theirs = after(lambda model: model.to(dtype), name)
    assert ours.dtype == dtype
    assert_close(ours, theirs, **CLOSE)


@torch.inference_mode()
def test_weights_may_move_to_another_device() -> None:
    model = tiny.make("gpt2").fuse().to("meta")
    assert model(torch.zeros(1, 3, dtype=torch.long, device="meta")).logits.is_meta


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", tiny.TEXTS | tiny.SEQ2SEQ)
@torch.inference_mode()
def test_no_rows_at_all_are_read_too(name: str, fused: bool) -> None:
    model, ids = tiny.make(name), torch.zeros(0, 4, dtype=torch.long)
    model = model.fuse() if fused else model
    if name in tiny.SEQ2SEQ:
        assert model(ids, ids).logits.shape == (0, 4, tiny.VOCAB)
        assert model.step(ids, model.new_state(model.encode(ids), None, 4)).shape == (0, tiny.VOCAB)
    else:
        assert model(ids).hidden.shape == (0, 4, model.config.d_model)


@pytest.mark.parametrize("weight", [torch.float32, HalfWeight, Int8Weight])
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian", "t5 v1.1"])
@torch.inference_mode()
def test_what_was_used_before_may_be_fused_and_fused_again(tmp_path: Path, name: str, weight: Any) -> None:
    save_model(tiny.make(name), tmp_path)
    fresh: Any = load_model(tmp_path, dtype=weight).fuse()
    used: Any = load_model(tmp_path, dtype=weight)
    pieces = [torch.tensor([[3, 9, 4], [5, 1, 7]]), torch.tensor([[2], [8]])]
    written(used, pieces, [None, None])
    ours, theirs = written(used.fuse().fuse(), pieces, [None, None]), written(fresh, pieces, [None, None])
    assert_close(ours, theirs, **CLOSE)
