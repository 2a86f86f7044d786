"""How fast are tokens written, beside transformers and CTranslate2? GPT-2 and Marian base, random weights.

    python benchmarks/decoding.py [gpt2] [marian] [--rounds 7]

All open the same weights, write the same number of tokens (no end is allowed) with two threads and the same beam, and
take turns in one run. CTranslate2 is in its best mode, int8, and in float32; transformers in float32. Ours in half
floats is finer than eight bits and coarser than float32.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ctranslate2
import torch
import transformers
from ctranslate2.converters import transformers as converters
from harness import machine, ratio, report, take_turns

from regard.decoding.beam import BeamSettings, beam_search
from regard.decoding.search import greedy
from regard.layers.half import HalfWeight
from regard.layers.int8 import Int8Weight
from regard.models.base import initialise
from regard.models.registry import find_preset
from regard.models.transformer import Transformer
from regard.weights.store import load_model, save_model

THREADS = 2
NEW = {"gpt2": 128, "marian": 25}
PROMPT = 25
CASES = {"gpt2": [(1, 1), (8, 1)], "marian": [(1, 4), (1, 1), (32, 4), (32, 1)]}
"(batch, beam)"
PAIRS = [
    ("CTranslate2 int8", "fp16"),
    ("CTranslate2 int8", "int8"),
    ("CTranslate2 float32", "fp32"),
    ("transformers", "fp16"),
    ("transformers", "fp32"),
]
"(theirs, ours)"
Run = Callable[[], Any]


def make(name: str, folder: Path) -> None:
    family, config = find_preset("gpt2" if name == "gpt2" else "marian-base")
    if name == "marian":  # 61 M parameters
        config = replace(config, vocab_size=32_000, pad_id=31_999, start_id=31_999)
    torch.manual_seed(0)
    model = family.build(config)
    initialise(model)
    save_model(model, folder)


def ours(name: str, folder: Path, dtype: Any, batch: int, beam: int) -> Run:
    model: Any = load_model(folder, dtype=dtype).fuse()

    @torch.inference_mode()
    def run() -> Any:
        if not isinstance(model, Transformer):
            state = model.new_state(batch, PROMPT + NEW[name])
            return list(greedy(model.step, state, prompt(batch), limit=NEW[name]))
        memory = model.encode(prompt(batch))
        state = model.new_state(memory, None, NEW[name])
        start = torch.full((batch,), model.config.start_id)
        if beam == 1:
            return list(greedy(model.step, state, start[:, None], limit=NEW[name]))
        return beam_search(model.step, state, start, BeamSettings(beam), limit=NEW[name], end_ids=())

    return run


def through_transformers(name: str, folder: Path, batch: int, beam: int) -> Run:
    cls = transformers.GPT2LMHeadModel if name == "gpt2" else transformers.MarianMTModel
    model = cls.from_pretrained(folder).eval()
    limits = {"max_new_tokens": NEW[name], "min_new_tokens": NEW[name], "num_beams": beam, "do_sample": False}
    mask = torch.ones(batch, PROMPT, dtype=torch.long)
    ids = prompt(batch)
    return lambda: model.generate(ids, attention_mask=mask, pad_token_id=model.config.eos_token_id, **limits)


def through_ctranslate2(name: str, folder: Path, kind: str, batch: int, beam: int) -> Run:
    place = folder / f"ctranslate2-{kind}"
    if not place.exists():
        convert(name, folder, place, kind)
    options = {"device": "cpu", "compute_type": kind, "inter_threads": 1, "intra_threads": THREADS}
    texts = [[f"t{id}" for id in row] for row in prompt(batch).tolist()]
    if name == "gpt2":
        generator = ctranslate2.Generator(str(place), **options)
        lengths = {"max_length": NEW[name], "min_length": NEW[name]}
        return lambda: generator.generate_batch(texts, sampling_topk=1, include_prompt_in_result=False, **lengths)
    translator = ctranslate2.Translator(str(place), **options)
    lengths = {"max_decoding_length": NEW[name], "min_decoding_length": NEW[name]}
    return lambda: translator.translate_batch(texts, beam_size=beam, max_batch_size=0, **lengths)


def convert(name: str, folder: Path, place: Path, kind: str) -> None:
    cls = transformers.GPT2LMHeadModel if name == "gpt2" else transformers.MarianMTModel
    model = cls.from_pretrained(folder)
    loader = converters.GPT2Loader() if name == "gpt2" else converters.MarianMTLoader()
    spec = loader.get_model_spec(model)
    words = [f"t{id}" for id in range(model.config.vocab_size)]
    if name == "gpt2":
        spec.register_vocabulary(words)
        spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = words[-1]
    else:
        words.pop()  # the row of the padding, from which a translation starts: the converter drops it as all zeros
        spec.register_source_vocabulary(words)
        spec.register_target_vocabulary(words)
        spec.config.bos_token = spec.config.eos_token = spec.config.decoder_start_token = words[0]
        spec.config.unk_token = words[1]
    place.mkdir()
    spec.validate()
    spec.optimize(quantization=kind)
    spec.save(str(place))


def prompt(batch: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randint(2, 30_000, (batch, PROMPT))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(CASES), metavar="gpt2 marian")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    transformers.logging.set_verbosity_error()
    rows, results = [], []
    for name in options.names:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            make(name, folder)
            for batch, beam in CASES[name]:
                runs = contestants(name, folder, batch, beam)
                seconds = take_turns(runs, rounds=options.rounds, warm_up=1)
                rows.append(row(name, batch, beam, seconds))
                print(" ".join(rows[-1]), flush=True)
                results.append({"model": name, "batch": batch, "beam": beam, "seconds": seconds})
    data = {"machine": machine(("transformers", "ctranslate2")), "rounds": options.rounds, "results": results}
    header = ["model", "batch, beam", "tokens/s, fp16", *(f"{own} / {theirs}" for theirs, own in PAIRS)]
    report("decoding", header, rows, data, "Above 1 ours is faster: median, and the middle half of the rounds.")


def contestants(name: str, folder: Path, batch: int, beam: int) -> dict[str, Run]:
    return {
        "fp16": ours(name, folder, HalfWeight, batch, beam),
        "int8": ours(name, folder, Int8Weight, batch, beam),
        "fp32": ours(name, folder, torch.float32, batch, beam),
        "transformers": through_transformers(name, folder, batch, beam),
        **{f"CTranslate2 {kind}": through_ctranslate2(name, folder, kind, batch, beam) for kind in ("int8", "float32")},
    }


def row(name: str, batch: int, beam: int, seconds: dict[str, list[float]]) -> list[str]:
    ratios = [ratio(seconds[theirs], seconds[own]) for theirs, own in PAIRS]
    speed = batch * NEW[name] / sorted(seconds["fp16"])[len(seconds["fp16"]) // 2]
    told = [f"{middle:.2f}x ({low:.2f} to {high:.2f})" for middle, low, high in ratios]
    return [name, f"{batch}, {beam}", f"{speed:.0f}", *told]


if __name__ == "__main__":
    main()
