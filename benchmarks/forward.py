"""How fast is one forward pass in float32, beside transformers? BERT-base, GPT-2 and ViT-base sizes, random weights.

    python benchmarks/forward.py [--rounds 20]

Both get the same weights (ours are saved and opened there), the same inputs and the same threads.
"""

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import transformers
from harness import machine, ratio, report, take_turns

from regard.models.registry import build_preset
from regard.weights.store import save_model

MODELS = {
    "BERT-base": ("bert-base", transformers.BertForPreTraining),
    "GPT-2": ("gpt2", transformers.GPT2LMHeadModel),
    "ViT-base": ("vit-base", transformers.ViTForImageClassification),
}
LENGTH = 128


def contestants(preset: str, theirs_class: Any, batch: int) -> dict[str, Callable[[], Any]]:
    ours = build_preset(preset).eval()
    with tempfile.TemporaryDirectory() as folder:
        save_model(ours, folder)
        theirs = theirs_class.from_pretrained(folder).eval()
    torch.manual_seed(0)
    if preset.startswith("vit"):
        pixels = torch.randn(batch, 3, 224, 224)
        return {"ours": lambda: ours(pixels), "theirs": lambda: theirs(pixels)}
    ids = torch.randint(0, ours.config.vocab_size, (batch, LENGTH))
    cache = {"use_cache": False} if preset == "gpt2" else {}
    return {"ours": lambda: ours(ids), "theirs": lambda: theirs(ids, **cache)}


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    transformers.logging.set_verbosity_error()
    rows, results = [], []
    for name, (preset, theirs_class) in MODELS.items():
        for batch in (1, 8):
            runs = contestants(preset, theirs_class, batch)
            seconds = take_turns(runs, rounds=rounds)
            middle, low, high = ratio(seconds["theirs"], seconds["ours"])
            rows.append([name, str(batch), f"{middle:.2f}x", f"{low:.2f} to {high:.2f}"])
            results.append(
                {"model": name, "batch": batch, "ratio": middle, "low": low, "high": high, "seconds": seconds}
            )
    data = {"machine": machine(("transformers",)), "rounds": rounds, "length": LENGTH, "results": results}
    report(
        "forward",
        ["model", "batch", "ours against transformers", "middle half of the rounds"],
        rows,
        data,
        "Above 1 ours is faster. float32, inference mode, 128 tokens or one 224 x 224 image.",
    )


if __name__ == "__main__":
    main()
