"""The eight choices in which the families differ, read off their presets so that the table cannot rot."""

from typing import Any

from regard.inspection.summary import position_of
from regard.models.base import Model
from regard.models.registry import build_preset

ROWS = {
    "Transformer 2017": "transformer-base",
    "BERT": "bert-base",
    "ELECTRA": "electra-small",
    "GPT-2": "gpt2",
    "Llama": "llama3.1-8b",
    "T5": "t5-small",
    "T5 v1.1": "t5-v1.1-small",
    "ViT": "vit-base",
}
HEADER = ("family", "norm", "position", "feed-forward", "mask", "attention", "embedding", "tied", "head")


def choices_table() -> str:
    """Markdown, one row a family."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    return "\n".join([*lines, *(_row(family, preset) for family, preset in ROWS.items())])


def _row(family: str, preset: str) -> str:
    model = build_preset(preset, device="meta")
    config = model.config
    cells = (
        family,
        f"{config.norm}, {config.norm_order}" + (", final" if config.final_norm else ""),
        {"relative": "relative bias"}.get(position_of(config), position_of(config)),
        ("gated " if config.gated else "") + config.activation,
        _mask(model),
        _attention(config),
        _embedding(model),
        _tied(config),
        _heads(config),
    )
    return "| " + " | ".join(cells) + " |"


def _mask(model: Model) -> str:
    reads = "padding" if hasattr(model.config, "pad_id") and hasattr(getattr(model, "encoder", None), "embed") else ""
    writes = "causal" if hasattr(model, "decoder") else ""
    cross = " + cross" if hasattr(model, "decoder") and hasattr(model, "encoder") else ""
    return "; ".join(filter(None, (reads, writes + cross))) or "none"


def _attention(config: Any) -> str:
    shared = f", {config.n_kv_heads} key heads" if config.n_kv_heads else ""
    return ("scaled" if config.scaled else "unscaled") + (", bias" if config.qkv_bias else ", no bias") + shared


def _embedding(model: Model) -> str:
    config = model.config
    parts = ["patches + class token"] if hasattr(model, "embed") else ["tokens"]
    parts += ["x sqrt(d)"] if config.embed_scale else []
    parts += ["+ segments"] if config.n_segments else []
    parts += ["norm"] if config.embed_norm else []
    parts += [f"narrow {config.d_embed}"] if config.d_embed else []
    return ", ".join(parts).replace(", +", " +").replace(", x", " x")


def _tied(config: Any) -> str:
    names = {True: "output", False: "no", "all": "both sides and output", "sides": "both sides"}
    return names[getattr(config, "tie", False)]


def _heads(config: Any) -> str:
    heads = getattr(config, "heads", None) or (getattr(config, "head", "language_model"),)
    return ", ".join(name.replace("_", " ") for name in heads)
