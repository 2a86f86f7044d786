"""Between Python and the compiled library: what PyTorch would refuse is refused, what it would take is taken."""

import copy
import subprocess
import sys
import threading
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from models import tiny
from regard.decoding.top import top
from regard.errors import UserError
from regard.layers import native as module
from regard.layers.half import HalfWeight
from regard.layers.int8 import Int8Weight
from regard.layers.native import CHOICE, HOME, native
from regard.weights.store import load_model, save_model

pytestmark = pytest.mark.skipif(native() is None, reason="nothing was compiled for this CPU: python tools/native.py")


def opened(name: str, folder: Path, kind: type = Int8Weight) -> Any:
    save_model(tiny.make(name), folder)
    return load_model(folder, dtype=kind).fuse()


def ids_of(rows: int, tokens: int, seed: int = 0) -> Tensor:
    return torch.randint(1, tiny.VOCAB - 1, (rows, tokens), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def test_rows_that_the_state_does_not_hold_are_refused(tmp_path: Path) -> None:
    gpt = opened("gpt2", tmp_path / "gpt2")
    with pytest.raises(ValueError, match="64 rows, the decoding state holds 2"):
        gpt.step(torch.ones(64, 3).long(), gpt.new_state(2, tiny.LENGTH))
    marian = opened("marian", tmp_path / "marian")
    for rows in (1, 3):
        state = marian.new_state(marian.encode(ids_of(2, 5)), None, tiny.LENGTH)
        with pytest.raises(ValueError, match="rows"):
            marian.step(torch.ones(rows, 1).long(), state)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of 160 numbers, expected 16"):
        Int8Weight.of(torch.randn(100, 16)).product(torch.randn(1, 160), None)


@torch.inference_mode()
def test_a_mask_of_one_row_is_for_all_rows_and_one_of_numbers_is_one_of_truths(tmp_path: Path) -> None:
    bert, ids = opened("bert", tmp_path / "bert"), ids_of(3, 5)
    valid = torch.tensor([[True, True, True, False, False]])
    assert torch.equal(bert(ids, valid).hidden, bert(ids, valid.expand(3, -1)).hidden)
    with pytest.raises((ValueError, RuntimeError)):
        bert(ids, valid[:, :4])
    marian = opened("marian", tmp_path / "marian")
    memory, scores = marian.encode(ids, valid.expand(3, -1)), []
    for each in (valid, valid.expand(3, -1), valid.expand(3, -1).long()):
        state = marian.new_state(memory, each, tiny.LENGTH)
        scores.append(marian.step(ids[:, :1], state))
    assert torch.equal(scores[0], scores[1])
    assert torch.equal(scores[0], scores[2])


@torch.inference_mode()
def test_ids_may_be_short_numbers_and_the_usual_float_another(tmp_path: Path) -> None:
    model, ids = opened("gpt2", tmp_path), ids_of(2, 4)
    expected = model(ids).logits
    assert torch.equal(model(ids.int()).logits, expected)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(model(ids).logits, expected)
    finally:
        torch.set_default_dtype(torch.float32)


@torch.inference_mode()
@pytest.mark.parametrize("how", ["new data", "sent to another process"])
def test_a_model_whose_memory_moved_still_writes_right(how: str) -> None:
    model = tiny.make("gpt2").fuse()
    ids = ids_of(1, 3)
    model.step(ids, model.new_state(1, tiny.LENGTH))
    if how == "new data":
        for each in model.parameters():
            each.data = each.data * 1.5
    else:
        ForkingPickler.dumps(model)
    junk = [torch.full((n,), 7.0) for n in (16, 24, 48, 256, 384, 768) * 50]
    torch.testing.assert_close(model.step(ids, model.new_state(1, tiny.LENGTH)), model(ids).logits[:, -1])
    del junk


@torch.inference_mode()
def test_models_and_states_can_be_copied_after_use(tmp_path: Path) -> None:
    model, ids = opened("marian", tmp_path), ids_of(2, 5)
    state = model.new_state(model.encode(ids), None, tiny.LENGTH)
    model.step(ids[:, :1], state)
    again, held = copy.deepcopy(model), copy.deepcopy(state)
    assert torch.equal(model.step(ids[:, 1:2], state), again.step(ids[:, 1:2], held))


def test_the_first_use_may_be_where_tensors_have_no_memory() -> None:
    script = "import torch\nfrom regard.layers.native import native\n"
    script += "with torch.device('meta'):\n    assert native() is not None"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("kind", [Int8Weight, HalfWeight])
def test_a_thread_with_a_small_stack_multiplies(kind: type) -> None:
    weight, x, found = kind.of(torch.randn(64, 768)), torch.randn(192, 768), []
    threading.stack_size(128 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(weight.product(x, None)))
        thread.start()
    finally:
        threading.stack_size(0)
    thread.join()
    assert torch.equal(found[0], weight.product(x, None))


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_tracing_is_refused(tmp_path: Path) -> None:
    model = opened("gpt2", tmp_path)
    with torch.no_grad(), pytest.raises(RuntimeError, match="cannot be traced"):
        torch.jit.trace(lambda ids: model(ids).logits, ids_of(1, 3))


def test_a_network_without_blocks_has_nothing_for_the_library() -> None:
    with torch.inference_mode():
        assert tiny.make("gpt2", n_layers=0).fuse()(ids_of(1, 3)).logits.isfinite().all()


def test_words_are_never_invented_nor_twice() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        top(torch.randn(2, 3), 5)
    scores = torch.full((1, 9), -torch.inf)
    scores[0, 4] = 5.0
    assert top(scores, 3)[1].tolist() == [[4, 0, 1]]


def test_very_negative_numbers_go_through_silu_as_in_pytorch(tmp_path: Path) -> None:
    """By a block whose gate is far below zero: what passes it is zero, not a millionth of an enormous number."""
    model = opened("llama", tmp_path, HalfWeight)
    with torch.inference_mode():
        for block in model.decoder.blocks:
            block.ffn.gate_up.weight.values[:] = -6e4
        assert model(ids_of(1, 4)).logits.isfinite().all()


@pytest.mark.usefixtures("afresh")
def test_a_library_of_other_files_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in [*HOME.glob("*.[ch]"), *HOME.glob("*.so")]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "words.c").write_text("/* another */", encoding="utf-8")
    monkeypatch.setattr(module, "HOME", tmp_path)
    assert native() is None


@pytest.mark.usefixtures("afresh")
def test_a_level_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "nonsense")
    with pytest.raises(UserError, match="REGARD_NATIVE is 'nonsense'"):
        native()


@pytest.mark.usefixtures("afresh")
def test_a_level_that_this_cpu_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "vnni")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    with pytest.raises(UserError, match="this CPU has no avx512_f"):
        native()


def test_no_row_of_a_table_is_no_row() -> None:
    table = Int8Weight.of(torch.randn(5, 32), table=True)
    assert table.rows_by_torch(torch.empty(0, 3, dtype=torch.long)).shape == (0, 3, 32)


@torch.inference_mode()
@pytest.mark.parametrize("n_threads", [1, 2])
def test_heads_that_are_narrower_than_the_model_have_room_for_their_panels(tmp_path: Path, n_threads: int) -> None:
    """Rows of 384 numbers need more room than rows of 512 or 1,024: the cache holds more of them at once."""
    sizes = {"d_model": 512, "n_heads": 6, "d_head": 64, "d_ff": 1024, "n_layers": 1, "max_len": 512}
    save_model(tiny.make("t5", **sizes), tmp_path)
    model, ids, before = load_model(tmp_path, dtype=Int8Weight).fuse(), ids_of(40, 12), torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        together = model.encode(ids)
        alone = torch.cat([model.encode(row[None]) for row in ids])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(together, alone)
