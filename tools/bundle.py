"""Put a trained model into the package: `python tools/bundle.py RUN/model [--name pt-en] [--longest TOKENS]`.

The folder src/regard/pretrained/NAME gets the weights as float16 (half the size; every engine still computes in
float32, as config.json says), the configuration and the vocabulary; an adapter, `python tools/bundle.py RUN/adapter
--name names`, is otherwise left as it is. Of a translator, --longest says how long a sentence may be before it is cut,
and at the end the translations before and after are compared, greedily, on the sentences of the tests. The
MODEL_CARD.md is written by hand and must be there before.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

import regard
from regard.errors import UserError
from regard.files import read_json_object, write_json
from regard.models.transformer import Transformer
from regard.models.wordvectors import WordVectorModel
from regard.pretrained.bundled import BUNDLED, FOLDER, TRANSLATOR
from regard.tasks.translator import Translator
from regard.weights.peft import CONFIG, FILE, is_adapter
from regard.weights.store import load_model, save_model

MAX_PARAMETERS, MAX_BYTES = 9_500_000, 20_000_000
CARD, BESIDE = "MODEL_CARD.md", ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json")
SENTENCES = Path(__file__).parent.parent / "tests" / "pretrained" / "sentences.txt"


def bundle(source: Path, target: Path, longest: int | None = None) -> None:
    """All files but the card; nothing is changed in `target` unless they are small enough."""
    if target.name not in BUNDLED:
        raise UserError(f"no bundled model is called {target.name}", f"known: {', '.join(BUNDLED)} (bundled.py)")
    if not (target / CARD).is_file():
        raise UserError(f"there is no {target / CARD}", "write the card first: data, licences, scores, limits")
    with tempfile.TemporaryDirectory() as made:
        write(source, Path(made), longest, BUNDLED[target.name].over)
        size = sum(path.stat().st_size for path in Path(made).iterdir())
        if size > MAX_BYTES:
            raise UserError(f"the model takes {size:,} bytes", f"at most {MAX_BYTES:,} come with the package")
        for path in sorted(Path(made).iterdir()):
            shutil.copyfile(path, target / path.name)
    print(f"{target}: {size:,} bytes")


def write(source: Path, target: Path, longest: int | None, over: str) -> None:
    if is_adapter(source):
        save_file({name: tensor.half() for name, tensor in load_file(source / FILE).items()}, target / FILE)
        for path in source.glob("*.json"):
            shutil.copyfile(path, target / path.name)
        write_json(target / CONFIG, read_json_object(source / CONFIG) | {"base_model_name_or_path": over})
        return
    model = load_model(source)
    if model.n_parameters > MAX_PARAMETERS:
        raise UserError(f"the model has {model.n_parameters:,} parameters", f"at most {MAX_PARAMETERS:,} are bundled")
    print(f"{source}: {model.n_parameters:,} parameters")
    if isinstance(model, WordVectorModel):
        model = alone(model)
    save_model(model.half(), target)
    settings = read_json_object(target / "config.json") | {"dtype": "float32"}  # to compute in, for other engines too
    write_json(target / "config.json", settings)
    if isinstance(model, Transformer):
        write_json(target / "generation_config.json", how_to_translate(settings))
    for name in BESIDE:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    if longest is not None:
        path = target / "tokenizer_config.json"
        write_json(path, read_json_object(path) | {"model_max_length": longest})


def alone(model: WordVectorModel) -> WordVectorModel:
    """Without the second table, which only learning needs."""
    vectors = WordVectorModel(replace(model.config, heads=()))
    vectors.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if name != "contexts"})
    return vectors


def how_to_translate(settings: dict[str, Any]) -> dict[str, Any]:
    """generation_config.json: transformers would stop after 20 tokens, and might write padding."""
    ids = {name: settings[name] for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id")}
    longest, padding = settings["max_position_embeddings"], [[settings["pad_token_id"]]]
    return ids | {"max_length": longest, "num_beams": 4, "bad_words_ids": padding}


def compare(source: Path, target: Path, sentences: list[str]) -> None:
    if is_adapter(source) or not isinstance(regard.load(source), Translator):
        return
    before, after = ([found.text for found in regard.load(path).many(sentences, beam=1)] for path in (source, target))
    differing = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    print(f"float16 against float32, greedy: {len(differing)} of {len(sentences)} translations differ")
    for pair in differing[:5]:
        print("  " + json.dumps(pair, ensure_ascii=False))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--name", default=TRANSLATOR)
    parser.add_argument("--longest", type=int, help="tokens of a sentence that it reads well; longer ones are cut")
    parser.add_argument("--sentences", type=Path, default=SENTENCES, help="to compare on, one a line")
    options = parser.parse_args()
    target = FOLDER / options.name
    try:
        bundle(options.model, target, options.longest)
        compare(options.model, target, options.sentences.read_text(encoding="utf-8").splitlines())
    except UserError as error:
        sys.exit(f"error: {error}")
    if "TODO" in (target / CARD).read_text(encoding="utf-8"):
        print(f"{target / CARD} still says TODO")


if __name__ == "__main__":
    main()
