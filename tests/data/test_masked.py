"""Words hidden for a model to find: how many, by what, and always the same for the same step and row."""

from pathlib import Path

import numpy as np
import pytest
import torch

from data.words import Writer, pairs
from regard.data.examples import Texts
from regard.data.masked import Masking
from regard.data.shards import Shards, prepare
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer
from regard.text.train import TokenizerConfig, train

WORDS = " ".join(text for pair in pairs(300, seed=3) for text in pair)


@pytest.fixture(scope="module")
def masked_tokenizer() -> Tokenizer:
    return train([WORDS] * 2, TokenizerConfig(kind="wordpiece", vocab_size=200), purpose="masked")


@pytest.fixture
def shards(write: Writer, masked_tokenizer: Tokenizer, tmp_path: Path) -> Shards:
    text = "\n".join(source for source, _ in pairs(2_000, longest=40))
    return prepare(write("a.txt", text), Texts([masked_tokenizer], 128, "cut"), tmp_path / "out")


def test_the_shares_are_those_of_the_paper(shards: Shards, masked_tokenizer: Tokenizer) -> None:
    masking, rows = Masking(masked_tokenizer), np.arange(len(shards))
    batch = masking(shards, rows, key=(1, 2))
    original = masking(shards, rows, key=(1, 2), share=0.0)
    assert batch.valid is not None
    words = int((batch.valid & torch.from_numpy(masking.is_word)[original.ids]).sum()) + original.n_targets
    assert batch.n_targets / words == pytest.approx(0.15, abs=0.01)  # a little more: at least one in each text
    shown = batch.ids[batch.at]
    assert float((shown == masked_tokenizer.mask_id).float().mean()) == pytest.approx(0.8, abs=0.02)
    assert float((shown == batch.targets).float().mean()) == pytest.approx(0.1, abs=0.02)
    assert bool(torch.from_numpy(masking.is_word)[batch.targets].all())  # never [CLS], [SEP] or padding
    assert bool(batch.at.any(1).all())


def test_what_is_hidden_depends_on_the_step_and_the_row_alone(shards: Shards, masked_tokenizer: Tokenizer) -> None:
    masking = Masking(masked_tokenizer)
    whole = masking(shards, np.array([5, 3, 8]), key=(1, 7))
    alone = masking(shards, np.array([3]), key=(1, 7))
    width = alone.ids.size(1)
    assert torch.equal(whole.ids[1, :width], alone.ids[0])
    assert torch.equal(whole.at[1, :width], alone.at[0])
    assert not torch.equal(masking(shards, np.array([5, 3, 8]), key=(1, 8)).at, whole.at)
    assert whole.without_targets().n_targets == 0


def test_a_vocabulary_without_a_mask_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match="no mask token"):
        Masking(tokenizer)
