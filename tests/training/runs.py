"""A run that takes seconds: a language of seven words and a model to match."""

import random
from pathlib import Path
from typing import Any

from regard.config import build, to_dict, to_toml
from regard.training.config import RunConfig

WORDS = {"rot": "red", "blau": "blue", "haus": "house", "hund": "dog", "und": "and", "ein": "a", "groß": "big"}


def write_pairs(folder: Path) -> None:
    """train.de, train.en, valid.de and valid.en: word by word, so there is something to learn."""
    chance = random.Random(0)
    for name, count in {"train": 300, "valid": 20}.items():
        rows = [chance.choices(list(WORDS), k=chance.randint(1, 7)) for _ in range(count)]
        (folder / f"{name}.de").write_text("\n".join(" ".join(row) for row in rows) + "\n", encoding="utf-8")
        (folder / f"{name}.en").write_text("\n".join(" ".join(WORDS[w] for w in row) for row in rows) + "\n")


TINY: dict[str, Any] = {"preset": "transformer-small", "d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 1,
                        "n_decoder_layers": 1, "dropout": 0.1}  # fmt: skip


def tiny_run(folder: Path, *, model: dict[str, Any] = TINY, **train: Any) -> RunConfig:
    return build(
        RunConfig,
        {
            "data": {key: [str(folder / f"{key}.{side}") for side in ("de", "en")] for key in ("train", "valid")},
            "text": {"vocab_size": 320},
            "model": model,
            "train": {"steps": 24, "batch_tokens": 300, "lr": 0.01, "warmup": 4, "average": 2, "accumulate": 2} | train,
            "valid": {"every": 8, "sentences": 10},
        },
    )  # fmt: skip


def write_recipe(folder: Path, **train: Any) -> Path:
    """The files and a TOML that names them as a user would: by names relative to their own folder."""
    write_pairs(folder)
    settings = to_dict(tiny_run(folder, **train))
    settings["data"] |= {key: [f"{key}.de", f"{key}.en"] for key in ("train", "valid")}
    (folder / "tiny.toml").write_text(to_toml(settings), encoding="utf-8")
    return folder / "tiny.toml"
