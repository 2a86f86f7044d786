"""Models trained from nothing: they learn, they resume exactly, and transformers opens what they save."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.data.shards import Shards
from regard.errors import UserError
from regard.tasks.load import load
from regard.text.load import load as load_tokenizer
from regard.training import loop
from regard.training.config import RunConfig
from regard.training.folder import run_of
from regard.training.model import check_model
from regard.training.run import assemble
from regard.weights.store import load_model
from training.test_jobs import train
from training.toys import lines

SMALL: dict[str, Any] = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 2, "dropout": 0.1, "attn_dropout": 0.0}
RUNS: dict[str, tuple[str, dict[str, Any], str]] = {
    "sentences": ("sentences", {"preset": "bert-tiny", **SMALL}, "wordpiece"),
    "replaced": ("replaced", {"preset": "electra-small", **SMALL, "d_embed": 16}, "wordpiece"),
    "spans": ("spans", {"preset": "t5-small", **SMALL, "d_head": 16, "ffn_dropout": 0.1, "attn_dropout": 0.1}, "bpe"),
    "packed": ("generate", {"preset": "char-gpt", **SMALL}, "byte-bpe"),
    "stream": ("generate", {"preset": "char-gpt", **SMALL}, "char"),
    "memory": ("generate", {"preset": "smollm2-135m", **SMALL, "n_kv_heads": 1, "dropout": 0.0}, "char"),
}
PACK = {"packed": "rows", "stream": "files", "memory": "files"}


@pytest.fixture(autouse=True)
def log_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_SECONDS", 0.0)


def small_run(folder: Path, name: str, *, steps: int = 40) -> RunConfig:
    task, model, kind = RUNS[name]
    chance = random.Random(1)
    documents = [" ".join(lines(chance).capitalize() for _ in range(chance.randint(1, 6))) for _ in range(120)]
    (folder / "documents.txt").write_text("\n".join(documents) + "\n", encoding="utf-8")
    data = {"train": [str(folder / "documents.txt")], "max_len": 32, "hold_out": 0.2}
    text = {"kind": kind, "vocab_size": 480, "min_frequency": 1}
    settings = {"epochs": 0, "steps": steps, "lr": 3e-3, "batch_tokens": 400, "warmup": 4, "schedule": "cosine"}
    if name in PACK:
        data["pack"] = PACK[name]
        data["memory"] = 24 if name == "memory" else 0
    whole = {"task": task, "data": data, "text": text, "model": model, "train": settings, "valid": {"every": steps}}
    return run_of(whole, ())


def saved(folder: Path) -> dict[str, torch.Tensor]:
    return {
        f"{path.parent.name}/{name}": tensor
        for path in sorted((folder / "model").rglob("model.safetensors"))
        for name, tensor in load_file(path).items()
    }


@pytest.mark.parametrize("name", RUNS)
def test_it_learns_and_resumes_bit_equal(name: str, tmp_path: Path) -> None:
    config = small_run(tmp_path, name)
    _, events = train(config, tmp_path / "through")
    losses = [event["loss"] for event in events if event["kind"] == "step"]
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])
    train(config, tmp_path / "broken", stop_at=15)
    train(config, tmp_path / "broken")
    through, broken = saved(tmp_path / "through"), saved(tmp_path / "broken")
    assert through.keys() == broken.keys()
    assert all(torch.equal(through[key], broken[key]) for key in through)


def opened(transformers: Any, folder: Path, name: str) -> tuple[Any, Any, Any]:
    """Theirs, ours and the ids of a text."""
    theirs = getattr(transformers, name).from_pretrained(folder).eval()
    ids = load_tokenizer(folder).encode("The red dog is a good song .").ids
    shown = transformers.AutoTokenizer.from_pretrained(folder)("The red dog is a good song .")
    assert shown["input_ids"] == ids
    return theirs, load_model(folder), torch.tensor([ids])


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parity
@pytest.mark.parametrize("name", RUNS)
def test_what_it_saves_opens_in_transformers_with_the_same_outputs(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    train(small_run(tmp_path, name, steps=6), tmp_path / "run")
    folder = tmp_path / "run" / "model"
    with torch.inference_mode():
        if name == "sentences":
            theirs, ours, ids = opened(transformers, folder, "BertForPreTraining")
            expected, found = theirs(ids), ours(ids).heads
            close(found["masked_lm"], expected.prediction_logits)
            close(found["next_sentence"], expected.seq_relationship_logits)
        elif name == "replaced":
            for half, cls in {"generator": "ElectraForMaskedLM", "discriminator": "ElectraForPreTraining"}.items():
                theirs, ours, ids = opened(transformers, folder / half, cls)
                close(ours(ids).logits, theirs(ids).logits)
        elif name == "spans":
            theirs, ours, ids = opened(transformers, folder, "T5ForConditionalGeneration")
            start = torch.tensor([[ours.config.start_id, 5, 6]])
            close(ours(ids, start).logits, theirs(input_ids=ids, decoder_input_ids=start).logits)
        else:
            theirs, ours, ids = opened(transformers, folder, "AutoModelForCausalLM")
            close(ours(ids).logits, theirs(ids).logits)


def test_both_halves_of_electra_learn_and_share_one_table(tmp_path: Path) -> None:
    trainer, _ = train(small_run(tmp_path, "replaced", steps=6), tmp_path / "run")
    model = trainer.model
    assert model.generator.encoder.embed.token is model.discriminator.encoder.embed.token
    names = [name for name, _ in model.named_parameters() if name.endswith("embed.token.weight")]
    assert len(names) == 1
    model.train()
    batch = trainer.job.batch(trainer.train, torch.arange(4).numpy(), (1, 2))
    loss = trainer.job.objective(model, batch)
    loss.total.backward()
    for half in (model.generator, model.discriminator):
        assert all(parameter.grad is not None for parameter in half.parameters())


def test_the_verdict_is_learnt_on_every_token(tmp_path: Path) -> None:
    trainer = assemble(small_run(tmp_path, "replaced"), tmp_path / "run", [])
    trainer.model.eval()
    batch = trainer.job.batch(trainer.train, torch.arange(6).numpy(), (1, 2))
    found = trainer.model(batch.ids, batch.original, batch.at, batch.draws, batch.valid)
    assert found.verdict.logits.shape == batch.ids.shape
    grads = torch.autograd.grad(trainer.job.objective.verdicts(found, batch), found.verdict.logits)[0]
    real = torch.ones_like(batch.at) if batch.valid is None else batch.valid
    assert torch.equal(grads != 0, real)
    assert torch.equal(found.replaced[~batch.at], batch.original[~batch.at])  # only hidden tokens are replaced


def test_a_step_in_parts_is_the_whole_step(tmp_path: Path) -> None:
    for name in ("sentences", "replaced"):
        trainer = assemble(small_run(tmp_path, name), tmp_path / name, [])
        trainer.model.eval()
        rows = torch.arange(12).numpy()
        whole = trainer.job.objective(trainer.model, trainer.job.batch(trainer.train, rows, (1, 2)))
        parts = [
            trainer.job.objective(trainer.model, trainer.job.batch(trainer.train, some, (1, 2)))
            for some in (rows[:5], rows[5:])
        ]
        assert whole.count == sum(part.count for part in parts)
        together = torch.stack([part.total for part in parts]).sum()
        torch.testing.assert_close(whole.total, together, rtol=1e-5, atol=0)


def test_electra_does_not_begin_from_a_trained_model(tmp_path: Path) -> None:
    config = small_run(tmp_path, "replaced")
    config.model.pop("preset")
    config.model["init"] = str(tmp_path)
    with pytest.raises(UserError, match="begin together"):
        check_model(config, "replaced_token")


def test_of_a_stream_the_end_of_the_file_is_held_out(tmp_path: Path) -> None:
    trainer = assemble(small_run(tmp_path, "stream"), tmp_path / "run", [])
    text = (tmp_path / "documents.txt").read_text()
    sets = {name: Shards(tmp_path / "run" / "data" / name) for name in ("train", "valid")}
    tokenizer = trainer.job.tokenizer
    found = {
        name: "".join(tokenizer.decode(shards.row(i)[0]) for i in range(len(shards))) for name, shards in sets.items()
    }
    assert found["train"] == text[: int(len(text) * 0.8)]
    assert found["train"] + found["valid"] == text
    assert set(trainer.lengths.ravel()) == {32}


def test_the_loss_of_a_stream_is_told_in_nats_for_each_letter(tmp_path: Path) -> None:
    _, events = train(small_run(tmp_path, "stream", steps=4), tmp_path / "run")
    (found,) = [event for event in events if event["kind"] == "valid"]
    assert found["nats-per-character"] == pytest.approx(found["loss"])  # a token is a letter


def test_only_texts_to_be_continued_are_joined(tmp_path: Path) -> None:
    config = small_run(tmp_path, "sentences")
    with pytest.raises(UserError, match=r"data\.pack is 'rows' for sentences"):
        replace(config, data=replace(config.data, pack="rows"))


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_a_recurrent_model_of_a_small_vocabulary_opens_again_and_has_no_memory(cell: str, tmp_path: Path) -> None:
    sizes = {"d_model": 16, "n_layers": 1}
    config = replace(small_run(tmp_path, "stream", steps=2), model={"preset": f"recurrent-{cell}-lm", **sizes})
    config = replace(config, train=replace(config.train, init="xavier"))
    check_model(config, "language_model")
    train(config, tmp_path / "run")
    assert load(tmp_path / "run" / "model")("the red", limit=3).text
    with pytest.raises(UserError, match="no attention to look back with"):
        check_model(replace(config, data=replace(config.data, memory=8)), "language_model")


def test_what_is_looked_back_at_counts_as_read(tmp_path: Path) -> None:
    trainer = assemble(small_run(tmp_path, "memory"), tmp_path / "run", [])
    assert set(trainer.lengths.ravel()) == {32 + 24}
    config = small_run(tmp_path, "memory")
    endless = replace(config, data=replace(config.data, memory=10**6))
    batch = (trainer := assemble(endless, tmp_path / "long", [])).job.still(trainer.train, torch.arange(1).numpy())
    assert batch.ids_in.size(1) < 20_000  # no more than there is
