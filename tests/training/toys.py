"""Tasks that a tiny model learns in seconds, and tiny models to start from."""

import random
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import torch

from regard.models.base import initialise
from regard.models.bert import Bert, BertConfig
from regard.models.gpt import Gpt, GptConfig
from regard.text.train import Purpose, TokenizerConfig
from regard.text.train import train as train_tokenizer
from regard.training.config import RunConfig
from regard.training.folder import run_of
from regard.training.loop import Trainer
from regard.training.run import assemble, finish
from regard.weights.store import save_model

GOOD, BAD, THINGS = ["good", "great", "fine"], ["bad", "poor", "awful"], ["film", "book", "dish", "song"]
COLOURS, ANIMALS = ["red", "blue", "green", "grey"], ["dog", "cat", "horse", "bird"]
WORDS = " ".join([*GOOD, *BAD, *THINGS, *COLOURS, *ANIMALS, "the a is was what and , . ? very not to"])


def reviews(chance: random.Random) -> str:
    kind = chance.random() < 0.5
    very = "very " * chance.randint(0, 3)
    return f"the {chance.choice(THINGS)} is {very}{chance.choice(GOOD if kind else BAD)}\t{'yes' if kind else 'no'}"


def pairs(chance: random.Random) -> str:
    one, other = chance.choice(COLOURS), chance.choice(COLOURS)
    return f"the {chance.choice(ANIMALS)} is {one}\tit was {other}\t{'same' if one == other else 'other'}"


def numbers(chance: random.Random) -> str:
    count = chance.randint(0, 5)
    return f"the {chance.choice(THINGS)} is {'very ' * count}good\t{count / 2}"


def tagged(chance: random.Random) -> str:
    colour, animal, thing = chance.choice(COLOURS), chance.choice(ANIMALS), chance.choice(THINGS)
    rows = [("the", "O"), (colour, "B-ANIMAL"), (animal, "I-ANIMAL"), ("was", "O"), ("a", "O"), (thing, "B-THING")]
    return "\n".join(f"{word}\t{tag}" for word, tag in rows) + "\n"


def answered(chance: random.Random) -> str:
    (one, other), (first, second) = chance.sample(ANIMALS, 2), chance.sample(COLOURS, 2)
    asked, right = chance.choice([(one, first), (other, second)])
    return f"what is the {asked} ?\tthe {one} is {first} and the {other} is {second} .\t{right}"


def lines(chance: random.Random) -> str:
    return f"the {chance.choice(ANIMALS)} is a {chance.choice(THINGS)} and the {chance.choice(COLOURS)} song is good ."


TOYS: dict[str, tuple[str, str, Callable[[random.Random], str], list[str]]] = {
    "classify": ("classify", "a.tsv", reviews, ["#1", "#2"]),
    "pairs": ("classify", "a.tsv", pairs, ["#1", "#2", "#3"]),
    "numbers": ("classify", "a.tsv", numbers, ["#1", "#2"]),
    "tag": ("tag", "a.conll", tagged, []),
    "answer": ("answer", "a.tsv", answered, ["#1", "#2", "#3"]),
    "fill": ("fill", "a.txt", lines, []),
    "generate": ("generate", "a.txt", lines, []),
}
"Name -> the task, a file name, what makes a row, and the columns."


def tiny_model(folder: Path, task: str) -> Path:
    """A model directory as a download would be: bare, with a vocabulary of words."""
    purpose: Purpose = "causal" if task == "generate" else "masked"
    settings = TokenizerConfig(kind="byte-bpe" if task == "generate" else "wordpiece", vocab_size=400, min_frequency=1)
    tokenizer = train_tokenizer([WORDS] * 4, settings, purpose=purpose)
    size: dict[str, Any] = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 2, "max_len": 64}
    size |= {"vocab_size": tokenizer.vocab_size}
    torch.manual_seed(0)
    ends = {"bos_id": tokenizer.bos_id, "eos_ids": () if tokenizer.eos_id is None else (tokenizer.eos_id,)}
    model = Gpt(GptConfig(**size, **ends)) if task == "generate" else Bert(BertConfig(**size, pad_id=tokenizer.pad_id))
    initialise(model)
    save_model(model, folder)
    tokenizer.save(folder)
    return folder


def toy_run(folder: Path, name: str, *, count: int = 200, **train: Any) -> RunConfig:
    task, file, make, columns = TOYS[name]
    chance = random.Random(1)
    (folder / file).write_text("".join(make(chance) + "\n" for _ in range(count)), encoding="utf-8")
    settings = {"lr": 3e-3, "batch_tokens": 300, "epochs": 2, "warmup": 4} | train
    data = {
        "train": [str(folder / file)],
        "columns": columns,
        "max_len": 32,
        "hold_out": 0.2,
        "numbers": name == "numbers",
    }
    init = str(tiny_model(folder / "init", task))
    return run_of({"task": task, "data": data, "model": {"init": init}, "train": settings}, ())


def train(config: RunConfig, folder: Path, *, stop_at: int | None = None) -> tuple[Trainer, list[dict[str, Any]]]:
    """To its end, or until it has done so many steps; and all that it told."""
    events: list[dict[str, Any]] = []
    stop = Event()

    def listen(kind: str, **values: Any) -> None:
        events.append({"kind": kind, **values})
        if kind == "step" and stop_at is not None and values["step"] >= stop_at:
            stop.set()

    trainer = assemble(config, folder, [listen])
    if trainer.fit(stop) != "stopped":
        finish(trainer)
    return trainer, events
