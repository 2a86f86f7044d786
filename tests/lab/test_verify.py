"""`verify` passes on honest models of every kind, says what does not apply and why, and what it compared."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lab.tiny import MODELS, ODD, make, saved
from regard.lab import exchange, finding, learning
from regard.lab import verify as lab
from regard.lab.finding import Found, compare
from regard.lab.subject import Subject
from regard.weights.store import load_model, save_model

WRITERS = ["transformer", "t5", "gpt2", "llama", "gru-additive", "lstm-lm", "bart", "rnn-dot", "captioner"]
NO_PEER = {"ours = transformers": "transformers has no such models"}


def silent(kind: str, *, learns: bool = True) -> dict[str, str]:
    """What does not apply to a model that writes no text."""
    training = {"accumulated = whole", "interrupted = uninterrupted"} if not learns else ()
    return {
        "cached = uncached": f"{kind} has no cache",
        "beam 1 = greedy": f"{kind} writes no text",
        **dict.fromkeys(training, f"{kind} that has no head to train learns nothing"),
    }


def reading(kind: str, *, learns: bool = True) -> dict[str, str]:
    return silent(kind, learns=learns) | {"causal": f"{kind} may look at all of its input"}


NO_PADDING = {"padding left = right = none": "images are never padded"}
WHY: dict[str, dict[str, str]] = {
    **{name: {} for name in WRITERS},
    **{name: reading("an encoder") for name in [*MODELS, *ODD] if name.startswith(("bert", "roberta", "electra"))},
    **{name: reading("an encoder", learns=False) for name in ("bert without a head", "electra")},
    "vit": reading("an image encoder") | NO_PADDING,
    "deit": reading("an image encoder") | NO_PADDING,
    "convnet": reading("an image encoder") | NO_PADDING | NO_PEER,
    "elmo": reading("a model of vectors", learns=False) | NO_PEER,
    "gru-additive": NO_PEER,
    "lstm-lm": NO_PEER,
    "rnn-dot": NO_PEER,
    "lstm-classifier": reading("a classifier") | NO_PEER,
    "gpt2 that classifies": silent("a classifier"),
    "gpt2 without a head": silent("a decoder without an output layer", learns=False),
}


@pytest.mark.parametrize("name", [*MODELS, *ODD])
def test_honest_models_pass_and_what_does_not_apply_says_why(name: str, tmp_path: Path) -> None:
    rows = lab.verify(*saved(name, tmp_path))
    assert [row for row in rows if not row.passed] == []
    assert [row.name for row in rows] == list(lab.CHECKS)
    assert {row.name: row.note for row in rows if not row.applies} == WHY[name]


def test_the_rows_are_strict_json_whatever_was_found() -> None:
    found = [None, 0.0, float("inf"), float("nan")]
    rows = [json.loads(json.dumps(lab.Row("x", each, 0.0, "why").to_dict(), allow_nan=False)) for each in found]
    assert [(row["applies"], row["passed"], row["difference"]) for row in rows] == [
        (False, True, None),
        (True, True, 0.0),
        (True, False, None),
        (True, False, None),
    ]


def test_numbers_that_are_none_or_do_not_fit_never_pass_and_never_hide() -> None:
    good, bad = torch.ones(2, 2), torch.tensor([[1.0, float("nan")], [1.0, 1.0]])
    assert not compare([(bad, good), (good, good)]).passed
    assert not compare([(good, good), (bad, good)]).passed
    assert not compare([(good, torch.ones(1, 2))]).passed
    assert compare([(good, good)]) == Found(0.0, 2e-5)


def test_what_is_allowed_grows_with_the_numbers_and_the_nearest_pair_is_shown() -> None:
    large, small = torch.tensor([1000.0]), torch.tensor([0.001])
    assert compare([(large + 0.01, large), (small, small)]).passed
    assert not compare([(small + 0.0001, small)]).passed
    assert compare([(large, large), (small + 1e-9, small)]).difference == pytest.approx(1e-9, rel=0.1)
    assert not compare([(large + 0.01, large)], exact=True).passed


@pytest.mark.parametrize("name", ["transformer", "llama", "bert", "lstm-lm"])
def test_a_model_whose_weights_are_not_numbers_passes_no_row_that_computes(name: str) -> None:
    model = make(name)
    with torch.no_grad():
        next(model.parameters())[:] = float("nan")
    assert {row.name for row in lab.verify(model) if row.applies and row.passed} == set()


def test_saved_is_loaded_shows_the_real_difference_where_the_width_is_reordered() -> None:
    row = lab.examine(Subject(make("transformer")), "saved = loaded")
    assert row.passed
    assert row.difference is not None
    assert row.tolerance is not None
    assert 0 < row.difference < row.tolerance < 1e-3
    assert "another order" in row.note


def test_saved_is_loaded_is_bit_by_bit_elsewhere_and_names_a_lost_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject(make("gpt2"))
    row = lab.examine(subject, "saved = loaded")
    assert (row.difference, row.tolerance) == (0.0, 0.0)
    back = make("gpt2")
    back.config = replace(back.config, dropout=0.3)
    monkeypatch.setattr(exchange, "load_model", lambda *args, **options: back)
    row = lab.examine(subject, "saved = loaded")
    assert not row.passed
    assert row.note == "changed on the way: dropout"


def test_transformers_opens_the_very_directory(tmp_path: Path) -> None:
    model, directory = saved("gpt2", tmp_path)
    with torch.no_grad():
        model.decoder.blocks[0].ffn.up.bias += 1.0
    save_model(model, directory)  # the directory is another model than the one that is verified
    other = make("gpt2")
    row = lab.examine(Subject(other, directory), "ours = transformers")
    assert not row.passed
    assert row.note.endswith("on the same directory")
    row = lab.examine(Subject(other), "ours = transformers")
    assert row.passed
    assert row.note.endswith("on a copy that regard saved")


def test_a_directory_in_half_precision_is_compared_in_full(tmp_path: Path) -> None:
    save_model(make("llama").half(), tmp_path)
    row = lab.examine(Subject(load_model(tmp_path), tmp_path), "ours = transformers")
    assert row.passed, row


def test_what_rounding_alone_sets_apart_is_judged_by_double_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every token's vector lies far out; the norms take that away again, and with it some of the seven digits. On some
    CPUs both sides round alike even so, hence the hook, which does nothing but round once more."""
    monkeypatch.setattr(finding, "ROUNDING", 1e-6)
    model = make("gpt2")
    model.decoder.embed.register_forward_hook(lambda module, given, out: out + 700.0 - 700.0)
    with torch.no_grad():
        model.decoder.embed.position.weight += 300.0
    save_model(model, tmp_path)
    row = lab.examine(Subject(model, tmp_path), "ours = transformers")
    assert row.passed, row
    assert "double precision" in row.note
    with torch.no_grad():
        model.decoder.blocks[0].ffn.up.weight *= 1.01
    assert not lab.examine(Subject(model, tmp_path), "ours = transformers").passed


def test_a_directory_that_transformers_does_not_open_fails_the_row_and_says_so(tmp_path: Path) -> None:
    model, directory = saved("gpt2", tmp_path)
    (directory / "model.safetensors").unlink()
    row = lab.examine(Subject(model, directory), "ours = transformers")
    assert not row.passed
    assert "does not open it" in row.note


def test_without_transformers_the_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange.importlib.util, "find_spec", lambda name: None)
    row = lab.examine(Subject(make("gpt2")), "ours = transformers")
    assert (row.applies, row.note) == (False, "transformers is not installed: pip install transformers")


def test_a_model_too_large_to_train_here_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "memory_limit_bytes", lambda: 1000)
    row = lab.examine(Subject(make("gpt2")), "interrupted = uninterrupted")
    assert not row.applies
    assert "of memory" in row.note


def test_a_check_that_breaks_fails_its_row_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(subject: Subject) -> Found:
        subject.model.train()
        raise RuntimeError("the roof is on fire\nand more")

    monkeypatch.setitem(lab.CHECKS, "causal", broken)
    subject = Subject(make("bert"))
    row = lab.examine(subject, "causal")
    assert not row.passed
    assert row.note == "RuntimeError: the roof is on fire"
    assert not subject.model.training


def test_verifying_leaves_the_model_and_the_random_numbers_as_they_were() -> None:
    model = make("gpt2")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    lab.verify(model)
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
