"""In which precision a model is opened, and what that changes."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from models import tiny
from regard.errors import UserError
from regard.layers import int8
from regard.layers.half import HalfWeight, has_kernel
from regard.layers.int8 import Int8Weight
from regard.layers.native import native
from regard.layers.short import ShortWeight
from regard.models.base import Model
from regard.pretrained.bundled import TRANSLATOR, by_name
from regard.weights import precision
from regard.weights.precision import bytes_of, chosen, is_lossless
from regard.weights.store import load_model, save_model
from tasks import generators, translators


def logits(model: Model) -> torch.Tensor:
    """Of every family, for a fixed input."""
    torch.manual_seed(1)
    ids = torch.randint(1, 20, (2, 7))
    found: torch.Tensor = (model(ids, ids) if hasattr(model, "target_table") else model(ids)).logits
    return found


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "marian", "t5", "bart"])
@torch.inference_mode()
def test_fewer_and_larger_products_give_the_same_numbers(name: str) -> None:
    model = tiny.make(name)
    theirs = logits(model)
    ours = logits(model.fuse())
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generators.save(tmp_path, generators.model())


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "int8"])
def test_every_precision_writes(folder: Path, name: Any) -> None:
    written = regard.load(folder, precision=name)("The book", limit=8)
    assert 1 <= len(written.ids) <= 8


@pytest.mark.parametrize(("name", "kind"), [("int8", Int8Weight), ("fp16", HalfWeight)])
def test_shorter_weights_are_in_every_large_product_and_nowhere_else(folder: Path, name: Any, kind: type) -> None:
    model = regard.load(folder, precision=name).model
    held = [name for name, module in model.named_modules() if isinstance(getattr(module, "weight", None), kind)]
    parts = ("attn.qkv", "attn.o", "ffn.gate_up", "ffn.down")
    layers = [f"decoder.blocks.{layer}.{part}" for layer in range(model.config.n_layers) for part in parts]
    assert sorted(held) == sorted([*layers, "decoder.embed.token", "unembed"])


def test_bf16_halves_the_weights(folder: Path) -> None:
    assert {each.dtype for each in regard.load(folder, precision="bf16").model.parameters()} == {torch.bfloat16}


def test_auto_takes_int8_from_a_size_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "largest_step", lambda: 127)
    for library, limit in ((object(), "LARGE_HERE"), (None, "LARGE")):
        monkeypatch.setattr(precision, "native", lambda library=library: library)
        assert chosen("auto", folder) == "fp32"
        monkeypatch.setattr(precision, limit, bytes_of(folder))
        assert chosen("auto", folder) == "int8"
        monkeypatch.setattr(precision, limit, bytes_of(folder) + 1)
        assert chosen("auto", folder) == "fp32"


@pytest.mark.parametrize("steps", [None, 63])
@pytest.mark.parametrize("half", [True, False])
def test_auto_takes_fp16_where_eight_bits_are_gone_or_coarse_and_fp32_where_both_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, steps: int | None, half: bool
) -> None:
    monkeypatch.setattr(precision, "LARGE", 0)
    monkeypatch.setattr(precision, "native", lambda: None)
    monkeypatch.setattr(precision, "largest_step", lambda: steps)
    monkeypatch.setattr(precision, "has_kernel", lambda: half)
    assert chosen("auto", folder) == ("fp16" if half else "fp32")


def test_nothing_is_lost_where_the_file_holds_half_floats_itself(folder: Path) -> None:
    assert is_lossless("fp32", folder)
    assert not is_lossless("fp16", folder)
    assert is_lossless("fp16", Path(by_name(TRANSLATOR)))
    expected = "int8" if native() is not None else "fp16" if has_kernel() else "fp32"
    assert chosen("auto", Path(by_name(TRANSLATOR))) == expected
    assert not is_lossless("int8", Path(by_name(TRANSLATOR)))


@pytest.mark.parametrize("beam", [1, 4])
def test_the_bundled_translator_writes_the_same_in_half_floats(beam: int) -> None:
    texts = ["O livro está em cima da mesa.", "Em Dezembro, Lucas irá viajar ao Rio.", "Onde fica a estação de trem?"]
    plain, half = (regard.load(TRANSLATOR, precision=name).many(texts, beam=beam) for name in ("fp32", "fp16"))
    for one, other in zip(plain, half, strict=True):
        assert other.text == one.text
        assert other.log_probability == pytest.approx(one.log_probability, abs=1e-4)


def test_auto_takes_fp32_on_another_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "largest_step", lambda: 127)
    monkeypatch.setattr(precision, "LARGE", 0)
    assert chosen("auto", folder, "meta") == "fp32"


def test_unknown_precisions_are_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'int8'"):
        regard.load(folder, precision="int88")  # type: ignore[arg-type]
    for name in ("fp16", "int8"):
        with pytest.raises(UserError, match=f"{name} is for the CPU"):
            chosen(name, folder, "cuda")


@pytest.mark.parametrize("name", ["fp32", "fp16", "int8"])
def test_a_summary_counts_the_same_whatever_became_of_the_weights(tmp_path: Path, name: Any) -> None:
    plain = translators.model()
    summary = regard.load(translators.save(tmp_path), precision=name).summary()
    assert summary.n_parameters == plain.n_parameters
    assert sum(summary.parts.values()) == plain.n_parameters


def test_int8_vectors_of_real_sentences_keep_their_direction(minilm_dir: Path, data_dir: Path) -> None:
    with gzip.open(data_dir / "sst2" / "glue_dev.tsv.gz", "rt", encoding="utf-8") as file:
        sentences = [line.rstrip("\n").split("\t")[1] for line in file][1:201]
    plain, eight = (regard.load(minilm_dir, precision=name)(sentences) for name in ("fp32", "int8"))
    assert len(sentences) == 200
    assert 1 - float(np.mean((plain * eight).sum(1))) < 0.002


def test_int8_translations_look_inside_themselves_too(tmp_path: Path) -> None:
    written = regard.load(translators.save(tmp_path), precision="int8")("O livro está em cima da mesa.")
    rows = written.alignment().weights.sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))
    assert int8.largest_step() in (63, 127)


@pytest.mark.parametrize("kind", [Int8Weight, HalfWeight])
@pytest.mark.parametrize("name", ["gpt2", "bert", "marian", "t5"])
def test_rounded_in_parts_is_rounded_at_once(
    name: str, kind: type[ShortWeight], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rows at a time, which leave one or two over, or all of them."""
    save_model(tiny.make(name), tmp_path)
    found = []
    for rows in (3, 4096):
        monkeypatch.setattr("regard.weights.fit.ROWS", rows)
        model = load_model(tmp_path, dtype=kind)
        weights = {name: getattr(module, "weight", None) for name, module in model.named_modules()}
        found.append({name: each for name, each in weights.items() if isinstance(each, ShortWeight)})
    some, whole = found
    assert some.keys() == whole.keys() != set()
    for each in some:
        assert torch.equal(some[each].plain(), whole[each].plain())
        assert torch.equal(getattr(some[each], "scales", torch.ones(1)), getattr(whole[each], "scales", torch.ones(1)))
