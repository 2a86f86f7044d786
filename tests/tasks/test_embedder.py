"""Vectors are numbers, or the error says which text has none; how they are pooled survives a conversion."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from faults.refusal import refused
from regard.cli import embed as verb
from regard.cli.main import run
from regard.models.bert import Bert, BertConfig
from regard.weights.store import save_model
from tasks.translators import tokenizer

GOOD, BAD = "A casa", "The table"


@pytest.fixture
def model() -> Bert:
    torch.manual_seed(0)
    return Bert(BertConfig(vocab_size=tokenizer().vocab_size, d_model=8, n_heads=2, d_ff=12, n_layers=1, max_len=40))


def save(model: Bert, directory: Path) -> Path:
    save_model(model, directory)
    tokenizer().save(directory)
    return directory


@pytest.fixture(params=[float("nan"), float("inf")], ids=str)
def broken(model: Bert, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A model with a token that gives no number."""
    only_bad = set(tokenizer().encode(BAD).ids) - set(tokenizer().encode(GOOD).ids)
    assert model.encoder.embed.token is not None
    with torch.no_grad():
        model.encoder.embed.token.weight[sorted(only_bad)] = request.param
    return save(model, tmp_path)


def test_weights_that_give_no_number_are_an_error_that_names_the_line(
    broken: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "CHUNK", 2)
    assert run(["embed", "--model", str(broken), GOOD, GOOD, GOOD, BAD, GOOD]) == 3
    out, err = capsys.readouterr()
    assert err.startswith("error: input line 4: the model's weights give no number")
    assert len(out.splitlines()) == 2  # what came before it
    assert "NaN" not in out


def test_the_error_is_the_same_from_python(broken: Path) -> None:
    embed = regard.load(broken)
    assert np.isfinite(embed([GOOD])).all()
    with refused("input line 2: the model's weights give no number"):
        embed([GOOD, BAD])


def test_a_converted_directory_pools_as_the_old_one_did(model: Bert, tmp_path: Path) -> None:
    """First token, no normalisation, at most three tokens: nothing that is a default."""
    old = save(model, tmp_path / "old")
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    (old / "modules.json").write_text(json.dumps(modules))
    (old / "1_Pooling").mkdir()
    (old / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    (old / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 3}))
    plain = regard.load(save(model, tmp_path / "plain"))
    assert run(["convert", str(old), str(tmp_path / "new")]) == 0
    texts = [GOOD, BAD, "O livro está em cima da mesa."]
    ours = regard.load(tmp_path / "new")(texts)
    np.testing.assert_array_equal(ours, regard.load(old)(texts))
    assert not np.allclose(ours, plain(texts))


def test_a_module_that_would_change_the_vectors_is_refused(model: Bert, tmp_path: Path) -> None:
    directory = save(model, tmp_path / "dense")
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    (directory / "modules.json").write_text(json.dumps(modules))
    with refused(directory / "modules.json", "'Dense' is not supported"):
        regard.load(directory)
