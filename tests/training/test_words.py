"""Word vectors and ELMo as runs: they learn, resume exactly, and what they save can be tagged with."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import regard
from faults.refusal import refused
from regard.config import to_dict
from regard.errors import UserError
from regard.tasks.tagger import Tagger
from regard.training import loop
from regard.training.config import RunConfig
from regard.training.folder import run_of
from training.test_jobs import train
from training.toys import lines, tagged

TINY: dict[str, dict[str, Any]] = {
    "skip-gram": {"task": "embed", "model": {"preset": "word2vec", "d_model": 16, "subsample": 0.0}},
    "cbow": {"task": "embed", "model": {"preset": "word2vec-cbow", "d_model": 16, "subsample": 0.05}},
    "elmo": {"task": "embed-in-context", "model": {"preset": "elmo-small", "d_model": 32, "drawn": 0}},
    "elmo, drawn": {"task": "embed-in-context", "model": {"preset": "elmo-small", "d_model": 32, "drawn": 12}},
}


@pytest.fixture(autouse=True)
def log_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOG_SECONDS", 0.0)


def run_for(folder: Path, name: str, **settings: Any) -> RunConfig:
    chance = random.Random(0)
    (folder / "a.txt").write_text("".join(lines(chance) + "\n" for _ in range(400)))
    train = {"lr": 5e-2, "epochs": 3, "batch_tokens": 500}
    data = {"train": [str(folder / "a.txt")], "hold_out": 0.1}
    return run_of({**TINY[name], "data": data, "text": {"vocab_size": 300}, "train": train | settings}, ())


@pytest.mark.parametrize("name", TINY)
def test_it_learns_and_resumes_bit_equal(name: str, tmp_path: Path) -> None:
    config = run_for(tmp_path, name)
    _, events = train(config, tmp_path / "through")
    losses = [event["loss"] for event in events if event["kind"] == "step"]
    assert sum(losses[-3:]) < (0.9 if name.startswith("elmo") else 0.96) * sum(
        losses[:3]
    )  # company tells less than order
    train(config, tmp_path / "broken", stop_at=len(losses) // 2 + 1)
    train(config, tmp_path / "broken")
    through, broken = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("through", "broken"))
    assert through.keys() == broken.keys()
    assert all(torch.equal(through[key], broken[key]) for key in through)


@pytest.mark.parametrize("name", ["skip-gram", "elmo", "elmo, drawn"])
def test_a_step_in_parts_is_the_same_step(name: str, tmp_path: Path) -> None:
    losses = {}
    for parts in (1, 3):
        torch.manual_seed(0)
        config = run_for(tmp_path, name, accumulate=parts)
        config.model["dropout"] = 0.0
        _, events = train(config, tmp_path / str(parts))
        losses[parts] = [event["loss"] for event in events if event["kind"] == "step"][:4]
    assert losses[1] == pytest.approx(losses[3], rel=2e-3)


@pytest.mark.parametrize("name", ["skip-gram", "elmo", "elmo, drawn"])
def test_a_tagger_learns_on_top_while_what_was_learnt_stays(name: str, tmp_path: Path) -> None:
    train(run_for(tmp_path, name), tmp_path / "words")
    init, chance = tmp_path / "words" / "model", random.Random(1)
    (tmp_path / "a.conll").write_text("".join(tagged(chance) + "\n" for _ in range(150)))
    frozen = "vectors" if name == "skip-gram" else "reader"
    data = {"train": [str(tmp_path / "a.conll")], "hold_out": 0.2, "max_len": 64}
    settings = {"lr": 1e-2, "epochs": 25, "batch_tokens": 300, "freeze": [frozen]}
    _, events = train(
        run_of({"task": "tag", "data": data, "model": {"init": str(init)}, "train": settings}, ()), tmp_path / "tags"
    )
    assert [event["span-F1"] for event in events if event["kind"] == "valid"][-1] > 90
    before, after = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("words", "tags"))
    stayed = [key for key in after if key.startswith(frozen)]
    assert stayed
    assert all(torch.equal(before[key], after[key]) for key in stayed)
    tag = regard.load(tmp_path / "tags" / "model")
    assert isinstance(tag, Tagger)
    assert [entity.label for entity in tag("the red dog was a book").entities] == ["ANIMAL", "THING"]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    config = run_for(tmp_path, "skip-gram")
    with pytest.raises(UserError, match="head"):
        train(run_of(to_dict(config) | {"model": {"preset": "elmo-small"}}, ()), tmp_path / "a")
    (tmp_path / "b.tsv").write_text("one\ttwo\n" * 10)
    two = to_dict(run_for(tmp_path, "elmo"))
    with pytest.raises(UserError, match="several columns"):
        train(run_of(two | {"data": {"train": [str(tmp_path / "b.tsv")]}}, ()), tmp_path / "b")


def test_a_training_that_could_learn_nothing_is_refused(tmp_path: Path) -> None:
    words = to_dict(run_for(tmp_path, "skip-gram"))
    with refused("model.subsample = 1e-12 leaves", "1e-3 is usual"):
        train(run_of(words, ["model.subsample=1e-12"]), tmp_path / "a")
    (tmp_path / "alone.txt").write_text("dog\ncat\n" * 10)
    with refused("no row to learn from: 20 rows, 20 empty"):
        train(run_of(words | {"data": {"train": [str(tmp_path / "alone.txt")]}}, ()), tmp_path / "b")
    with refused("seen 1,000,000 times", "lower min_frequency"):
        train(
            run_of(to_dict(run_for(tmp_path, "elmo")), ["text.kind=bare-word", "text.min_frequency=1000000"]),
            tmp_path / "c",
        )
