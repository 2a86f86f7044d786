"""Every task a run can be for: it learns, it resumes exactly, and what it saves says the same elsewhere."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import UserError
from regard.models.registry import find_preset
from regard.tasks.classifier import Classifier
from regard.tasks.embedder import Embedder
from regard.tasks.load import tasks_of
from regard.text.load import load as load_tokenizer
from regard.training import loop
from regard.training.config import LoraSettings
from regard.training.run import assemble, data_report, is_finished
from regard.weights.store import load_model, save_model
from training.toys import TOYS, toy_run, train

REACHED = {
    "classify": ("accuracy", 95), "pairs": ("accuracy", 50), "numbers": ("Pearson", 60), "tag": ("span-F1", 90),
    "answer": ("answer-F1", 20), "fill": ("top-1", 0.2), "generate": ("perplexity", 0),
}  # fmt: skip
"What each reaches, far above chance (or for answers, at it: a few seconds do not teach to look things up)."


@pytest.fixture(autouse=True)
def log_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_SECONDS", 0.0)


@pytest.mark.parametrize("name", TOYS)
def test_it_learns_and_resumes_bit_equal(name: str, tmp_path: Path) -> None:
    config = toy_run(tmp_path, name, epochs=12 if name in ("classify", "numbers", "tag") else 6)
    _, events = train(config, tmp_path / "through")
    losses = [event["loss"] for event in events if event["kind"] == "step"]
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])
    metric, least = REACHED[name]
    assert [event[metric] for event in events if event["kind"] == "valid"][-1] >= least
    train(config, tmp_path / "broken", stop_at=len(losses) // 2 + 1)
    train(config, tmp_path / "broken")
    through, broken = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("through", "broken"))
    assert through.keys() == broken.keys()
    assert all(torch.equal(through[key], broken[key]) for key in through)


CLASSES = {"tag": "TokenClassification", "answer": "QuestionAnswering", "fill": "MaskedLM", "generate": "CausalLM"}
"Those of transformers; for all others it is SequenceClassification."


@pytest.mark.parity
@pytest.mark.parametrize("name", TOYS)
def test_what_it_saves_opens_in_transformers_with_the_same_logits(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    train(toy_run(tmp_path, name, count=40, epochs=1), tmp_path / "run")
    folder = tmp_path / "run" / "model"
    theirs = (
        getattr(transformers, f"AutoModelFor{CLASSES.get(name, 'SequenceClassification')}")
        .from_pretrained(folder)
        .eval()
    )
    ours = load_model(folder)
    ids = load_tokenizer(folder).encode("the red dog is good").ids
    shown = transformers.AutoTokenizer.from_pretrained(folder)("the red dog is good", return_tensors="pt")
    assert shown["input_ids"][0].tolist() == ids
    with torch.inference_mode():
        expected, found = theirs(**shown), ours(torch.tensor([ids])).logits
    if name == "answer":
        torch.testing.assert_close(
            found, torch.stack([expected.start_logits, expected.end_logits], -1), atol=1e-5, rtol=0
        )
    else:
        torch.testing.assert_close(found, expected.logits, atol=1e-5, rtol=0)
    if name in ("classify", "pairs"):
        assert theirs.config.id2label == dict(enumerate(ours.config.labels))


def test_the_report_counts_labels_and_what_is_in_both_sets(tmp_path: Path) -> None:
    found = data_report(toy_run(tmp_path, "classify"))
    assert set(found.labels) == {"yes", "no"}
    assert sum(found.labels.values()) == found.sets["train"].rows
    assert found.overlaps["valid"].columns == (0,)  # equal texts never part
    assert "labels in train: " in str(found)


@pytest.mark.parametrize(("name", "wrong"), [("classify", ("a", "b")), ("pairs", "a")])
def test_a_model_of_pairs_is_not_asked_about_one_text_nor_the_other_way_round(
    name: str, wrong: str | tuple[str, str], tmp_path: Path
) -> None:
    train(toy_run(tmp_path, name, count=40, epochs=1), tmp_path / "run")
    classify = tasks_of(tmp_path / "run" / "model")[Classifier]()
    right = "the film is good" if name == "classify" else ("the dog is red", "it was red")
    assert len(classify([right])) == 1
    with pytest.raises(UserError, match="two texts, and here is one" if name == "pairs" else "these are pairs"):
        classify([wrong])


def test_balanced_weights_make_labels_count_alike(tmp_path: Path) -> None:
    config = toy_run(tmp_path, "pairs", epochs=1, class_weights="balanced")
    trainer = assemble(config, tmp_path / "run", [])
    every = trainer.job.batch(trainer.train, torch.arange(len(trainer.train)).numpy(), (0,))
    sums = [float(every.weights[every.labels == label].sum()) for label in (0, 1)]
    assert sums[0] == pytest.approx(sums[1], rel=1e-4)
    assert float(every.weights.mean()) == pytest.approx(1, rel=1e-4)


def test_a_number_is_first_foreseen_as_the_mean_and_a_trained_head_goes_on(tmp_path: Path) -> None:
    config = toy_run(tmp_path, "numbers", epochs=1)
    trainer = assemble(config, tmp_path / "run", [])
    every = trainer.job.batch(trainer.train, torch.arange(len(trainer.train)).numpy(), (0,))
    with torch.inference_mode():
        first = trainer.job.logits(trainer.model.eval(), every)[:, 0]
    assert float(first.mean()) == pytest.approx(float(every.labels.mean()), abs=0.3)
    assert float(every.labels.mean()) > 1  # fresh weights alone would say 0
    train(config, tmp_path / "first")
    again = replace(config, model={"init": str(tmp_path / "first" / "model")})
    heads = [assemble(again, tmp_path / "second", []).model, load_model(tmp_path / "first" / "model")]
    assert torch.equal(*(head.state_dict()["heads.classify.bias"] for head in heads))


def test_frozen_weights_stay_and_lower_layers_learn_slower(tmp_path: Path) -> None:
    config = toy_run(tmp_path, "classify", epochs=1, freeze=["encoder.embed"], layer_decay=0.5)
    trainer, _ = train(config, tmp_path / "run")
    before, after = load_model(config.model["init"]).state_dict(), load_model(tmp_path / "run" / "model").state_dict()
    assert torch.equal(before["encoder.embed.token.weight"], after["encoder.embed.token.weight"])
    moved = [
        (after[name] - before[name]).abs().mean() for name in (f"encoder.blocks.{i}.ffn.up.weight" for i in (0, 1))
    ]
    assert 0 < moved[0] < moved[1]
    assert {group["scale"] for group in trainer.optimizer.param_groups} == {1.0, 0.5, 0.25}


def test_what_does_not_fit_is_refused_with_its_place(tmp_path: Path) -> None:
    config = toy_run(tmp_path, "classify")
    place = Path(config.data.train[0])
    rows = place.read_text().splitlines()
    (tmp_path / "valid.tsv").write_text("\n".join([*rows[:3], "the film is good\tmaybe"]) + "\n")
    wrong = replace(config, data=replace(config.data, valid=(str(tmp_path / "valid.tsv"),)))
    with pytest.raises(UserError, match=r"valid\.tsv, line 4: the label is 'maybe'"):
        assemble(wrong, tmp_path / "a", [])
    with pytest.raises(UserError, match=r"no weight is called nowhere"):
        assemble(replace(config, train=replace(config.train, freeze=("nowhere",))), tmp_path / "b", [])
    with pytest.raises(UserError, match=r"valid\.metric is 'BLEU'"):
        train(replace(config, valid=replace(config.valid, metric="BLEU")), tmp_path / "c")
    answers = toy_run(tmp_path, "answer")
    with (tmp_path / "a.tsv").open("a") as file:
        file.write("what is the dog ?\tthe dog is red .\tblue\n")
    with pytest.raises(UserError, match=r"a\.tsv, line 201: the answer 'blue' does not stand in the context"):
        assemble(answers, tmp_path / "d", [])


@pytest.mark.parametrize("name", ["classify", "generate"])
def test_with_adapters_the_weights_stay_and_the_model_has_them_merged(name: str, tmp_path: Path) -> None:
    config = toy_run(tmp_path, name, epochs=4)
    config = replace(config, lora=LoraSettings(rank=4, targets=("q", "v", "up")))
    trainer, events = train(config, tmp_path / "run")
    losses = [event["loss"] for event in events if event["kind"] == "step"]
    assert losses[-1] < losses[0]
    before, after = load_model(config.model["init"]).state_dict(), trainer.model.state_dict()
    kept = [key for key in before if key in after]
    assert all(torch.equal(before[key], after[key]) for key in kept)
    merged, ids = load_model(tmp_path / "run" / "model"), torch.tensor([[5, 6, 7, 8]])
    trainer.model.eval()
    with torch.inference_mode():
        torch.testing.assert_close(merged(ids).logits, trainer.model(ids).logits, atol=1e-5, rtol=0)
        adapter = load_model(tmp_path / "run" / "adapter")
        torch.testing.assert_close(adapter(ids).logits, merged(ids).logits, atol=1e-5, rtol=0)


def test_adapters_that_peft_has_no_file_for_are_merged_and_the_run_ends(tmp_path: Path) -> None:
    """ELECTRA's head for hidden words is tied to its embeddings, which an adapter's file would part."""
    config = toy_run(tmp_path, "fill", count=40, epochs=1)
    tokenizer, init = load_tokenizer(tmp_path / "init"), tmp_path / "electra"
    family, preset = find_preset("electra-small")
    size = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 2, "max_len": 64, "vocab_size": tokenizer.vocab_size}
    save_model(family.build(replace(preset, **size, d_embed=16, pad_id=tokenizer.pad_id)), init)
    tokenizer.save(init)
    config = replace(config, model={"init": str(init)}, lora=LoraSettings(rank=2))
    trainer, events = train(config, tmp_path / "run")
    assert any("not beside it" in event.get("text", "") for event in events)
    assert not (tmp_path / "run" / "adapter").exists()
    assert is_finished(trainer)
    load_model(tmp_path / "run" / "model")


def test_an_adapter_over_a_model_that_embeds_is_what_it_was_trained_for(tmp_path: Path) -> None:
    config = replace(toy_run(tmp_path, "classify", count=40, epochs=1), lora=LoraSettings(rank=2))
    (tmp_path / "init" / "modules.json").write_text("[]")  # as MiniLM has one: made to embed
    train(config, tmp_path / "run")
    assert list(tasks_of(tmp_path / "run" / "adapter")) == [Classifier, Embedder]
    shutil.copy(tmp_path / "init" / "modules.json", tmp_path / "run" / "model")
    assert list(tasks_of(tmp_path / "run" / "model")) == [Embedder, Classifier]
