"""Texts joined and read through windows: each token foreseen once, and none from another text."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from data.words import END, PAD, Writer
from models.tiny import make
from regard.data.corpus import read_rows
from regard.data.language import Documents, TextBatch, collate_text
from regard.data.shards import prepare
from regard.data.stream import Joined, Windows, collate_windows
from regard.data.stretch import Stretch
from regard.errors import UserError
from regard.models.base import initialise
from regard.models.registry import find_preset
from regard.objectives.causal import Causal
from regard.text.tokenizer import Tokenizer

TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10", "w11 w12"]


def windows_of(write: Writer, tokenizer: Tokenizer, folder: Path, width: int, *, moving: bool = False) -> Windows:
    shards = prepare(write("a.txt", "\n".join(TEXTS) + "\n"), Joined(tokenizer), folder)
    return Windows(shards, width, moving=moving)


def joined() -> list[int]:
    return [id for text in TEXTS for id in [END, *(int(word[1:]) + 3 for word in text.split()), END]]


def whole_batch(windows: Windows, tokenizer: Tokenizer) -> TextBatch:
    return collate_windows(windows, np.arange(len(windows)), (0,), tokenizer)


@pytest.mark.parametrize("width", [2, 3, 5, 8, 50])
def test_each_token_but_the_first_of_a_text_is_a_target_once(
    width: int, write: Writer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    windows = windows_of(write, tokenizer, tmp_path / "out", width)
    batch = whole_batch(windows, tokenizer)
    assert batch.ids_in.shape == (len(windows), width)
    assert batch.ids_out[batch.valid].tolist() == [id for text in TEXTS for id in [*_ids(text), END]]


def _ids(text: str) -> list[int]:
    return [int(word[1:]) + 3 for word in text.split()]


def test_packed_and_unpacked_losses_are_the_same(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Learned and rotary positions start again in each text, and attention stays inside it."""
    windows = windows_of(write, tokenizer, tmp_path / "packed", 40)
    packed = whole_batch(windows, tokenizer)
    shards = prepare(write("a.txt", "\n".join(TEXTS) + "\n"), Documents(tokenizer, 40), tmp_path / "rows")
    rows = collate_text(shards, np.arange(len(shards)), pad_id=PAD)
    assert len(packed.ids_in) == 1
    assert len(rows.ids_in) == len(TEXTS)
    for preset in ("char-gpt", "smollm2-135m"):
        family, config = find_preset(preset)
        sizes = {"d_model": 16, "n_heads": 2, "n_kv_heads": 2, "d_ff": 32, "n_layers": 2, "vocab_size": 53}
        plain = {"max_len": 40, "dropout": 0.0, "attn_dropout": 0.0, "bos_id": None, "eos_ids": ()}
        torch.manual_seed(0)
        model = family.build(type(config)(**{**vars(config), **sizes, **plain}))
        initialise(model, std=0.5)
        ours, theirs = Causal()(model, packed), Causal()(model, rows)
        assert ours.count == theirs.count
        torch.testing.assert_close(ours.total, theirs.total, rtol=1e-5, atol=0)
        leaking = Causal()(model, TextBatch(**{**vars(packed), "documents": None}))
        assert abs(float(leaking.total.detach()) / float(ours.total.detach()) - 1) > 1e-3  # the test can fail


@pytest.mark.parametrize("memory", [1, 3, 7, 60])
def test_with_a_memory_windows_foresee_the_same_and_come_with_what_is_before_them(
    memory: int, write: Writer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    plain = windows_of(write, tokenizer, tmp_path / "out", 5)
    windows, every = Windows(plain, 5, moving=False, memory=memory), joined()
    memory = windows.memory  # no more than there is
    batch, bare = whole_batch(windows, tokenizer), whole_batch(plain, tokenizer)
    assert torch.equal(batch.ids_out, bare.ids_out)
    assert torch.equal(batch.valid, bare.valid)
    assert torch.equal(batch.ids_in[:, memory:], bare.ids_in)
    for row, ids in enumerate(batch.ids_in.tolist()):
        there = min(memory, row * 5)
        assert ids[memory - there : memory] == every[row * 5 - there : row * 5]
    assert batch.documents is not None
    assert batch.documents[0, memory] > batch.documents[0, memory - 1]  # before the first window there is nothing


def test_a_memory_makes_a_window_as_good_as_a_longer_one(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """What is foreseen through short windows that look back is what is foreseen in one long window."""
    whole = windows_of(write, tokenizer, tmp_path / "out", 40)
    looking = Windows(whole, 5, moving=False, memory=35)
    model = make("llama", seed=3, vocab_size=53, max_len=40)
    ours, theirs = (Causal()(model, whole_batch(windows, tokenizer)) for windows in (looking, whole))
    assert ours.count == theirs.count
    torch.testing.assert_close(ours.total, theirs.total, rtol=1e-5, atol=0)
    blind = Causal()(model, whole_batch(Windows(whole, 5, moving=False), tokenizer))
    assert abs(float(blind.total.detach()) / float(ours.total.detach()) - 1) > 1e-3  # the test can fail


def test_windows_that_move_are_whole_and_a_function_of_step_and_row(
    write: Writer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    windows, every = windows_of(write, tokenizer, tmp_path / "out", 4, moving=True), joined()
    seen = set()
    for step in range(40):
        ids, real = windows.read(np.arange(len(windows)), (1, step))
        assert real.all()
        assert np.array_equal(windows.read(np.array([2]), (1, step))[0][0], ids[2])
        for row, window in enumerate(ids.tolist()):
            starts = [at for at in range(len(every) - 4) if every[at : at + 5] == window]
            assert any(row * 4 <= at < row * 4 + 4 or at == len(every) - 5 for at in starts)
            seen |= set(starts)
    assert seen == set(range(len(every) - 4))  # in time a window begins anywhere


@given(st.text(min_size=1, max_size=200), st.floats(0.01, 0.99))
def test_a_file_is_one_text_and_its_end_is_held_out(tmp_path_factory: pytest.TempPathFactory, text: str, share: float):  # type: ignore[no-untyped-def]
    text = text.encode("utf-8", "ignore").decode().replace("\ufeff", "") or "x"
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(text.encode())
    parts = [Stretch((path,), 0.0, 1 - share), Stretch((path,), 1 - share, 1.0)]
    first, last = ("".join(row[0] for row in read_rows(part)) for part in parts)
    assert first == text[: int(len(text) * (1 - share))]
    assert first + last == text


def test_what_cannot_be_joined_is_refused(write: Writer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.tsv, line 1: a row has 2 columns"):
        prepare(write("a.tsv", "w1\tw2\n"), Joined(tokenizer), tmp_path / "out")
